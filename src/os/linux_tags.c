// SPDX-License-Identifier: MIT
// Whether Linux gives this process memory with tags, and in which mode its accesses are compared:
// the one that the process, or its loader, chose before (GLIBC_TUNABLES=glibc.mem.tagging), else
// the synchronous one, in which a wrong access ends where it is made, and not some time later.
//
// A program that keeps something of its own in the upper bits of pointers cannot have tags: they
// are refused as the loader's are, by GLIBC_TUNABLES=glibc.mem.tagging=0, with any C library.
//
// The mode is each thread's own, and the threads that it starts have it from it. So it is chosen
// only while there is one thread: others would use blocks unchecked, and their calls of the kernel
// would be refused, as without a mode the kernel takes no address with a tag.
#include "os.h"
#include "system.h"

#if MX_SYSTEM == MX_LINUX && MX_HAS_LIBC

#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "libc.h"
#include "linux.h"
#include "linux_syscall.h"
#include "tags.h"

// Of headers that older systems lack.
#define HWCAP2_HAS_MTE (1UL << 18)
#define CONTROL_SET 55  // PR_SET_TAGGED_ADDR_CTRL
#define CONTROL_GET 56
#define CONTROL_IS_ON 1L       // the kernel takes addresses with tags
#define CONTROL_SYNC (1L << 1)
#define CONTROL_MODES (3L << 1)
#define CONTROL_CHOICES (0xFFFEL << 3)  // the tags that the processor chooses at random: not 0

static long control(long call, long value) {
  return mx_syscall6(SYS_prctl, call, value, 0, 0, 0, 0);
}

static bool is_refused(void) {
  static const char name[] = "GLIBC_TUNABLES=", tunable[] = "glibc.mem.tagging=0";
  for (char** entry = mx_os_environ(); entry != NULL && *entry != NULL; entry++) {
    if (strncmp(*entry, name, sizeof(name) - 1) != 0) continue;
    const char* const at = strstr(*entry, tunable);
    const char after = (at == NULL ? '1' : at[sizeof(tunable) - 1]);
    return after == 0 || after == ':';
  }
  return false;
}

// The number of threads is the 18th field behind the name, which may hold anything.
static bool has_one_thread(void) {
  char text[1024];
  if (mx_libc_is_alone()) return true;
  if (mx_os_read_file("/proc/self/stat", text, sizeof(text)) <= 0) return false;
  const char* at = strrchr(text, ')');
  for (int field = 0; at != NULL && field < 18; field++) {
    at = strchr(at, ' ');
    if (at != NULL) at++;
  }
  return at != NULL && at[0] == '1' && at[1] == ' ';
}

// Whether each granule has a tag of its own. A kernel may take the mode where a machine has no
// place for tags; and the system emulation of qemu 7.2 gives every other granule of an OS page the
// same.
static bool keeps_tag(void) {
  const int prot = PROT_READ | PROT_WRITE | MX_PROT_TAGS;
  const size_t size = mx_facts.os_page;
  const long p = mx_syscall_mmap(NULL, size, prot, MAP_PRIVATE | MAP_ANONYMOUS);
  if (mx_syscall_failed(p)) return false;
  mx_tag_write(mx_tag_with((const void*)p, 5), MX_TAG_GRANULE);
  unsigned others = 0;
  const long granule = (long)MX_TAG_GRANULE;
  for (long i = 1; i < 8; i++) others |= mx_tag_read((const void*)(p + i * granule));
  const bool does = (mx_tag_read((const void*)p) == 5 && others == 0);
  mx_syscall2(SYS_munmap, p, size);
  return does;
}

void mx_linux_choose_tags(void) {
  if (!MX_TAGS || (getauxval(AT_HWCAP2) & HWCAP2_HAS_MTE) == 0 || is_refused()) return;
  const long before = control(CONTROL_GET, 0);
  if (before < 0) return;
  const bool is_chosen = (before & CONTROL_IS_ON) != 0 && (before & CONTROL_MODES) != 0;
  if (!is_chosen) {
    if (!has_one_thread()) return;
    if (control(CONTROL_SET, CONTROL_IS_ON | CONTROL_SYNC | CONTROL_CHOICES) != 0) return;
  }
  mx_facts.has_tags = keeps_tag();
  if (!mx_facts.has_tags && !is_chosen) control(CONTROL_SET, before);
}

#endif
