// SPDX-License-Identifier: MIT
// Threads that do one thing after the other, each when they are told to, while the others wait.
#ifndef TOLD_H
#define TOLD_H

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "../src/heap/thread_life.h"

typedef struct told_s {
  pthread_t thread;
  sem_t may_go, is_done;
  void (*run)(struct told_s* self);  // NULL: end
  mx_theap_t* theap;
  void* data;  // of the test
} told_t;

static void* told_main(void* arg) {
  told_t* const t = (told_t*)arg;
  t->theap = mx_thread_theap();
  sem_post(&t->is_done);
  for (;;) {
    sem_wait(&t->may_go);
    if (t->run == NULL) return NULL;
    t->run(t);
    sem_post(&t->is_done);
  }
}

// The thread has begun, and has a theap.
static told_t* told_begin(void* data) {
  told_t* const t = (told_t*)calloc(1, sizeof(told_t));
  if (t == NULL || sem_init(&t->may_go, 0, 0) != 0 || sem_init(&t->is_done, 0, 0) != 0) exit(2);
  t->data = data;
  if (pthread_create(&t->thread, NULL, &told_main, t) != 0) exit(2);
  sem_wait(&t->is_done);
  return t;
}

// Comes back when it has been done.
static void tell(told_t* t, void (*run)(told_t* self)) {
  t->run = run;
  sem_post(&t->may_go);
  sem_wait(&t->is_done);
}

// Its theap, whose record may serve another thread from now on.
static mx_theap_t* told_end(told_t* t) {
  mx_theap_t* const theap = t->theap;
  t->run = NULL;
  sem_post(&t->may_go);
  pthread_join(t->thread, NULL);
  sem_destroy(&t->may_go);
  sem_destroy(&t->is_done);
  free(t);
  return theap;
}

#endif
