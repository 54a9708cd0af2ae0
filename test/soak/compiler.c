// SPDX-License-Identifier: MIT
// Allocates as a compiler does that stays: for each file a tree of small nodes, a table of names
// that grows, passes that replace nodes and lists, a buffer of text that is written; then all of
// it goes, but for names that are kept for all files, of which there are only so many.
#include "user.h"

#define KEPT 20000

typedef struct node_s {
  struct node_s *left, *right;
  uint32_t* uses;
  uint32_t use_count, kind;
} node_t;

typedef struct file_s {
  random_t random;
  node_t** nodes;
  size_t count, room;
  char* text;
  size_t length, text_room;
} file_t;

static char* kept[KEPT];
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static node_t* node_new(file_t* f) {
  const size_t extra = random_below(&f->random, 8) * 24;
  node_t* const n = calloc(1, sizeof(node_t) + extra);
  check(n != NULL);
  n->kind = (uint32_t)f->count;
  return n;
}

static void node_free(node_t* n) {
  free(n->uses);
  free(n);
}

static void parse(file_t* f, size_t count) {
  while (f->count < count) {
    if (f->count == f->room) {
      f->room = f->room * 2 + 64;
      check((f->nodes = realloc(f->nodes, f->room * sizeof(*f->nodes))) != NULL);
    }
    node_t* const n = node_new(f);
    if (f->count > 2) {
      n->left = f->nodes[random_below(&f->random, f->count)];
      n->right = f->nodes[f->count - 1];
    }
    f->nodes[f->count++] = n;
  }
}

static void add_use(file_t* f, node_t* n) {
  if ((n->use_count & (n->use_count + 1)) == 0) {
    check((n->uses = realloc(n->uses, (2 * n->use_count + 2) * sizeof(*n->uses))) != NULL);
  }
  n->uses[n->use_count++] = (uint32_t)f->count;
}

// Every pass notes uses, throws some nodes out and puts others in their place.
static void optimize(file_t* f) {
  for (size_t i = 0; i < f->count; i++) {
    const size_t pick = random_below(&f->random, f->count);
    if (random_below(&f->random, 3) != 0) {
      add_use(f, f->nodes[pick]);
      continue;
    }
    node_free(f->nodes[pick]);
    f->nodes[pick] = node_new(f);
  }
}

static void keep_name(file_t* f, uint32_t number) {
  char name[64];
  snprintf(name, sizeof(name), "name_%u_%.*s", number, (int)(number % 30), "of_something_that_is_declared_");
  char** const at = &kept[number % KEPT];
  pthread_mutex_lock(&kept_lock);
  char* const old = *at;
  if (old == NULL || random_below(&f->random, 16) == 0) {
    check((*at = strdup(name)) != NULL);
    free(old);
  }
  pthread_mutex_unlock(&kept_lock);
}

static void emit(file_t* f) {
  for (size_t i = 0; i < f->count; i += 3) {
    const size_t more = 20 + random_below(&f->random, 60);
    if (f->length + more > f->text_room) {
      f->text_room = f->text_room + f->text_room / 2 + 4096;
      check((f->text = realloc(f->text, f->text_room)) != NULL);
    }
    memset(f->text + f->length, '.', more);
    f->length += more;
    if (i % 48 == 0) keep_name(f, (uint32_t)random_below(&f->random, KEPT));
  }
}

static void compile_file(uint64_t number) {
  file_t f;
  memset(&f, 0, sizeof(f));
  f.random = random_of(number);
  parse(&f, 1500 + random_below(&f.random, 3000));
  for (int pass = 0; pass < 3; pass++) optimize(&f);
  emit(&f);
  for (size_t i = 0; i < f.count; i++) node_free(f.nodes[i]);
  free(f.nodes);
  free(f.text);
}

// The files come in a cycle, so that every interval has the same work.
static void* compile_all(void* arg) {
  for (uint64_t n = 0; !stress_is_over(); n++) {
    const uint64_t begin = user_now();
    compile_file((uint64_t)(uintptr_t)arg * 1000 + n % 40);
    user_took(begin);
    usleep(1000);
  }
  return NULL;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  file_t f;
  f.random = random_of(1);
  for (uint32_t i = 0; i < KEPT; i++) keep_name(&f, i);
  user_run(compile_all, stress_threads < 16 ? stress_threads : 16, argc, argv);
  for (int i = 0; i < KEPT; i++) free(kept[i]);
  return 0;
}
