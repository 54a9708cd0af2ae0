// SPDX-License-Identifier: MIT
// What forks cost: `forks KIND COUNT`, KIND one of
//
//   exit    the child ends at once
//   busy    the same, while another thread of the parent replaces 2,000 blocks of its own
//   work    the child allocates and frees 200 blocks and ends
//   exec    the child runs this program anew, which allocates one block and ends
//
// The parent holds 1,000 blocks and exchanges 20 of them between two forks. It prints one line:
// microseconds of processor time for each fork, of the thread that forks and the child
// together; page faults of either for each fork; KiB of page tables.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIVE 1000
#define BUSY 2000

static void* volatile live[LIVE];
static char* self;
static volatile int is_over;

static void exchange(int from, int count) {
  for (int i = from; i < from + count; i++) {
    free(live[i % LIVE]);
    live[i % LIVE] = malloc((size_t)(16 + i % 400));
  }
}

static void* replace(void* unused) {
  static void* blocks[BUSY];
  unsigned random = 1;
  (void)unused;
  while (!is_over) {
    random = random * 1103515245 + 12345;
    void** const place = &blocks[(random >> 8) % BUSY];
    const size_t size = 16 + (random >> 20) % 1000;
    free(*place);
    *place = malloc(size);
    if (*place != NULL) memset(*place, 1, size);
  }
  for (int i = 0; i < BUSY; i++) free(blocks[i]);
  return NULL;
}

static void be_child(const char* kind) {
  static char once[] = "once";
  char* const arguments[] = {self, once, NULL};
  if (strcmp(kind, "exec") == 0) execv(self, arguments);
  if (strcmp(kind, "work") == 0) exchange(0, 200);
  _exit(strcmp(kind, "exec") == 0);
}

static double usecs_of(const struct rusage* r) {
  return (double)(r->ru_utime.tv_sec + r->ru_stime.tv_sec) * 1e6 +
         (double)(r->ru_utime.tv_usec + r->ru_stime.tv_usec);
}

static long page_tables(void) {
  char text[4096];
  FILE* const f = fopen("/proc/self/status", "r");
  if (f == NULL) return 0;
  const size_t n = fread(text, 1, sizeof(text) - 1, f);
  fclose(f);
  text[n] = 0;
  const char* const at = strstr(text, "VmPTE:");
  return at == NULL ? 0 : strtol(at + 6, NULL, 10);
}

int main(int argc, char** argv) {
  self = argv[0];
  exchange(0, 1);
  if (argc < 3) return 0;
  exchange(0, LIVE);
  struct rusage own_before, own, children;
  const int count = atoi(argv[2]);
  const int is_busy = (strcmp(argv[1], "busy") == 0);
  pthread_t thread;
  if (is_busy && pthread_create(&thread, NULL, replace, NULL) != 0) return 1;
  if (is_busy) usleep(100000);  // it has all its blocks
  getrusage(RUSAGE_THREAD, &own_before);
  for (int i = 0; i < count; i++) {
    int status = 1;
    const pid_t child = fork();
    if (child == 0) be_child(argv[1]);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
    exchange(i * 20, 20);
  }
  getrusage(RUSAGE_THREAD, &own);
  is_over = 1;
  if (is_busy) pthread_join(thread, NULL);
  getrusage(RUSAGE_CHILDREN, &children);
  printf("%.1f %.1f %.1f %ld\n",
         (usecs_of(&own) - usecs_of(&own_before) + usecs_of(&children)) / count,
         (double)(own.ru_minflt - own_before.ru_minflt) / count,
         (double)children.ru_minflt / count, page_tables());
  return 0;
}
