// SPDX-License-Identifier: MIT
// The ends of threads where no code of ours runs at them: a program without a libc.
//
// The kernel keeps a "robust list" of each thread: when the thread dies, however that happens, it
// writes FUTEX_OWNER_DIED into the words on the list. Each thread that has a heap enters one such
// word, once. Others that need memory or begin look at the words from time to time, and whoever
// finds such a one first cleans up after the thread: its heap is given up to all.
//
// The list's head lies in an entry of a table that is never unmapped: in thread-local storage it
// would be gone with the stack of a detached thread before the kernel reads it.
//
// A thread whose list is somebody else's, or that is refused one (seccomp, emulators), is asked for
// by a signal that is never sent: ESRCH says that it is gone. That its number may be some other
// thread's by then only delays the answer.
//
// A thread may die inside a call of this library, by an exit in a callback or a signal's handler.
// Its heap is then in the middle of a change: it is left as it is, for ever, with what it owns. The
// blocks in it stay their users', which may free them.
//
// A child of vfork runs on its parent's thread-local storage, and would register itself in the
// parent's place: the process id tells, and the parent does it with its next slow call.
#include "robust.h"

#if defined(MI_NO_LIBC)

#include "../base/lock.h"
#include "linux_syscall.h"
#include "os.h"
#include "thread.h"

#define OWNER_DIED 0x40000000u  // the whole word: the kernel clears the number of the thread
#define CLEANED_UP 0x20000000u
#define ESRCH_ 3

#define CHUNK_SIZE (64 * MX_KIB)
#define LOOKS 64         // entries that one look visits
#define LOOKS_ASKING 4   // of those at most so many that need a system call

enum { KIND_NONE, KIND_ROBUST, KIND_ASKED, KIND_PENDING };

// The kernel's struct robust_list_head, its one entry, and the word.
typedef struct entry_s {
  void* first;
  long word_offset;
  void* pending;
  void* link;                  // of the entry: leads back to the head
  mx_atomic(uint32_t) word;
  mx_atomic(uint32_t) kind;
  mx_atomic(long) pid;         // of the process in which it was entered
  mx_atomic(uint32_t) calls;   // how deep the thread is in calls that change its heap
  void* value;
  uintptr_t id;
  struct entry_s* next_free;   // under the lock
  long tid;
} entry_t;

typedef struct chunk_s {
  struct chunk_s* next;
  mx_atomic(size_t) count;
  entry_t entries[];
} chunk_t;

#define CHUNK_ENTRIES ((CHUNK_SIZE - sizeof(chunk_t)) / sizeof(entry_t))

static mx_lock_t lock;  // of the free list and of making entries
static entry_t* free_entries;
static mx_atomic(chunk_t*) chunks;  // newest first, never given back
static mx_atomic(mx_thread_died_fn*) on_death;
static mx_atomic(long) process;

static mx_thread_local entry_t* own;
mx_thread_local mx_atomic(uint32_t)* mx_call_word;
// Where this thread's next look begins.
static mx_thread_local chunk_t* look_chunk;
static mx_thread_local size_t look_index;

// ---- entries -----------------------------------------------------------------------------------

static entry_t* carve(void) {
  chunk_t* chunk = mx_load_relaxed(&chunks);
  if (chunk == NULL || mx_load_relaxed(&chunk->count) == CHUNK_ENTRIES) {
    chunk_t* const fresh = (chunk_t*)mx_os_map(NULL, CHUNK_SIZE, true);
    if (fresh == NULL) return NULL;
    fresh->next = chunk;
    mx_store_release(&chunks, fresh);
    chunk = fresh;
  }
  const size_t count = mx_load_relaxed(&chunk->count);
  mx_store_release(&chunk->count, count + 1);
  return &chunk->entries[count];
}

static entry_t* take_entry(void) {
  mx_lock_acquire(&lock);
  entry_t* entry = free_entries;
  if (entry != NULL) free_entries = entry->next_free;
  else entry = carve();
  mx_lock_release(&lock);
  return entry;
}

static void put_entry(entry_t* entry) {
  entry->value = NULL;
  mx_store_release(&entry->kind, (uint32_t)KIND_NONE);
  mx_lock_acquire(&lock);
  entry->next_free = free_entries;
  free_entries = entry;
  mx_lock_release(&lock);
}

static long process_id(void) { return mx_syscall1(SYS_getpid, 0); }

// Whether the kernel takes this thread's list, which may be somebody else's already.
static bool enter_list(entry_t* entry) {
  void* head = NULL;
  size_t size = 0;
  if (mx_syscall3(SYS_get_robust_list, 0, &head, &size) != 0 || head != NULL) return false;
  entry->first = &entry->link;
  entry->link = entry;
  entry->word_offset = (long)((char*)&entry->word - (char*)&entry->link);
  entry->pending = NULL;
  return mx_syscall2(SYS_set_robust_list, entry, 3 * sizeof(void*)) == 0;
}

static void enter(entry_t* entry) {
  const long pid = process_id();
  if (pid != mx_load_relaxed(&process)) {
    mx_store_release(&entry->kind, (uint32_t)KIND_PENDING);
    return;
  }
  mx_store_relaxed(&entry->pid, pid);
  entry->tid = mx_syscall1(SYS_gettid, 0);
  mx_store_relaxed(&entry->word, (uint32_t)entry->tid);
  const bool entered = enter_list(entry);
  mx_store_release(&entry->kind, (uint32_t)(entered ? KIND_ROBUST : KIND_ASKED));
}

void mx_robust_arm(void* value) {
  if (mx_load_relaxed(&process) == 0) mx_store_relaxed(&process, process_id());
  if (own == NULL && value != NULL) {
    own = take_entry();
    if (own == NULL) return;  // out of memory: this thread's heap is lost when it ends
    own->value = value;
    own->id = mx_thread_id();
    mx_store_relaxed(&own->calls, mx_call_depth);
    mx_call_word = &own->calls;
    enter(own);
  } else if (own != NULL) {
    own->value = value;
  }
  mx_robust_look(false);
}

// ---- the dead ----------------------------------------------------------------------------------

static bool is_gone(const entry_t* entry, uint32_t kind, uint32_t word, int* asks) {
  if (kind == KIND_ROBUST) return word == OWNER_DIED;
  const long pid = mx_load_relaxed(&process);
  if (kind != KIND_ASKED || word == CLEANED_UP || mx_load_relaxed(&entry->pid) != pid) return false;
  return --*asks >= 0 && mx_syscall3(SYS_tgkill, pid, entry->tid, 0) == -ESRCH_;
}

static void look_at_entry(entry_t* entry, mx_thread_died_fn* fn, int* asks) {
  const uint32_t kind = mx_load_acquire(&entry->kind);
  uint32_t word = mx_load_acquire(&entry->word);
  if (kind == KIND_NONE || !is_gone(entry, kind, word, asks)) return;
  if (!mx_cas_strong_acq_rel(&entry->word, &word, CLEANED_UP)) return;
  const bool was_calling = mx_load_relaxed(&entry->calls) != 0;
  if (entry->value != NULL && !was_calling) fn(entry->value, entry->id);
  put_entry(entry);
}

// This thread's entry may be one that a child of vfork made, or that was copied by a fork.
static void renew_own(void) {
  if (own == NULL) return;
  const bool is_old = mx_load_relaxed(&own->pid) != mx_load_relaxed(&process);
  if (is_old || mx_load_relaxed(&own->kind) == KIND_PENDING) enter(own);
}

void mx_robust_look(bool at_all) {
  mx_thread_died_fn* const fn = mx_load_acquire(&on_death);
  if (fn == NULL) return;
  renew_own();
  int asks = (at_all ? INT32_MAX : LOOKS_ASKING);
  chunk_t* const newest = mx_load_acquire(&chunks);
  if (at_all) look_chunk = NULL;
  for (int i = 0; (at_all || i < LOOKS) && newest != NULL; i++) {
    if (look_chunk == NULL) {
      look_chunk = newest;
      look_index = 0;
    }
    if (look_index >= mx_load_acquire(&look_chunk->count)) {
      look_chunk = look_chunk->next;
      look_index = 0;
      if (look_chunk == NULL) return;  // all seen: from the newest on the next time
      continue;
    }
    entry_t* const entry = &look_chunk->entries[look_index++];
    if (entry != own) look_at_entry(entry, fn, &asks);
  }
}

// At the start: the first call of all may be made by a child of vfork.
void mx_robust_setup(mx_thread_died_fn* fn) {
  mx_store_relaxed(&process, process_id());
  mx_store_release(&on_death, fn);
}

void mx_robust_after_fork(bool is_alone) {
  mx_store_relaxed(&process, process_id());
  if (!is_alone) return;
  mx_lock_reset(&lock);
  for (chunk_t* chunk = mx_load_relaxed(&chunks); chunk != NULL; chunk = chunk->next) {
    for (size_t i = 0; i < mx_load_relaxed(&chunk->count); i++) {
      entry_t* const entry = &chunk->entries[i];
      if (entry != own && mx_load_relaxed(&entry->kind) != KIND_NONE) put_entry(entry);
    }
  }
  if (own != NULL) enter(own);
}

#endif
