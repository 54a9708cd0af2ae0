// SPDX-License-Identifier: MIT
// Allocates as a web server does that has a thread for each request: headers, a body that grows as
// it comes in, a tree of what it says, an answer; all freed when the thread ends but for the
// session, which other requests find and at last free.
#include "user.h"

#define SESSIONS 3000
// How often a session is used before rows are printed: enough for as many of them to end as to begin.
#define USES 24

typedef struct session_s {
  size_t size;
  struct session_s* more;  // what later requests added
  unsigned char stamp;
} session_t;

typedef struct node_s {
  struct node_s *first, *next;
  char* name;
} node_t;

static session_t* sessions[SESSIONS];
static pthread_mutex_t session_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_ullong requests;

static session_t* session_new(random_t* r) {
  const size_t size = sizeof(session_t) + random_below(r, random_below(r, 20) == 0 ? 20000 : 600);
  session_t* const s = malloc(size);
  check(s != NULL);
  s->size = size;
  s->more = NULL;
  s->stamp = (unsigned char)size;
  ((unsigned char*)s)[size - 1] = (unsigned char)size;
  return s;
}

static void session_free(session_t* s) {
  while (s != NULL) {
    session_t* const more = s->more;
    if (s->size > sizeof(*s)) check(((unsigned char*)s)[s->size - 1] == (unsigned char)s->size);
    free(s);
    s = more;
  }
}

// Most requests add to a session; some end it, and a new one begins.
static void use_session(random_t* r) {
  session_t* const mine = session_new(r);
  session_t* gone = NULL;
  session_t** const at = &sessions[random_below(r, SESSIONS)];
  pthread_mutex_lock(&session_lock);
  if (random_below(r, 4) == 0) {
    gone = *at;
    *at = mine;
  } else {
    mine->more = *at;
    *at = mine;
  }
  pthread_mutex_unlock(&session_lock);
  session_free(gone);
}

static node_t* tree_new(random_t* r, int depth) {
  node_t* const n = calloc(1, sizeof(*n));
  check(n != NULL);
  char name[80];
  snprintf(name, sizeof(name), "%.*s", (int)random_below(r, 60), "a name of some length, as they are in texts of this kind too");
  check((n->name = strdup(name)) != NULL);
  for (size_t k = (depth > 0 ? random_below(r, 7) : 0); k > 0; k--) {
    node_t* const child = tree_new(r, depth - 1);
    child->next = n->first;
    n->first = child;
  }
  return n;
}

static void tree_free(node_t* n) {
  while (n != NULL) {
    node_t* const next = n->next;
    tree_free(n->first);
    free(n->name);
    free(n);
    n = next;
  }
}

static char* read_body(random_t* r) {
  const size_t whole = random_below(r, random_below(r, 30) == 0 ? 400000 : 9000);
  size_t room = 512, length = 0;
  char* body = malloc(room);
  while (length < whole) {
    length += 1 + random_below(r, 4000);
    if (length > room) body = realloc(body, room = 2 * length);
    check(body != NULL);
    memset(body + length / 2, 'b', length / 2);
  }
  return body;
}

static void* answer_request(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  char* headers[24];
  for (int i = 0; i < 24; i++) {
    const size_t size = 8 + random_below(&r, 120);
    check((headers[i] = malloc(size)) != NULL);
    memset(headers[i], i, size);
  }
  char* const body = read_body(&r);
  node_t* const tree = tree_new(&r, 4);
  use_session(&r);
  char* const page = calloc(1, 4096 + random_below(&r, 30000));
  check(page != NULL);
  tree_free(tree);
  free(body);
  free(page);
  for (int i = 0; i < 24; i++) free(headers[i]);
  return NULL;
}

// What the sessions hold when the server has run for long, from threads that have ended.
static void* use_sessions(void* arg) {
  random_t r = random_of((uint64_t)(uintptr_t)arg);
  for (int i = 0; i < SESSIONS; i++) use_session(&r);
  return NULL;
}

static size_t sessions_count(void) {
  size_t count = 0;
  for (int i = 0; i < SESSIONS; i++) {
    for (const session_t* s = sessions[i]; s != NULL; s = s->more) count++;
  }
  return count;
}

// One that accepts: a thread for each request, and the next when it is answered.
static void* serve(void* arg) {
  (void)arg;
  while (!stress_is_over()) {
    const uint64_t begin = user_now();
    const uint64_t number = 1000 + atomic_fetch_add(&requests, 1);
    pthread_join(start(answer_request, (void*)(uintptr_t)number), NULL);
    user_took(begin);
    usleep(300);
  }
  return NULL;
}

int main(int argc, char** argv) {
  stress_args(argc, argv);
  for (uintptr_t n = 0; n < USES; n++) pthread_join(start(use_sessions, (void*)n), NULL);
  const size_t count = sessions_count();
  user_run(serve, stress_threads < 16 ? stress_threads : 16, argc, argv);
  // Else what grew may have been the load, however few requests there were time for.
  const size_t end = sessions_count();
  check(10 * end < 11 * count && 10 * count < 11 * end);
  for (int i = 0; i < SESSIONS; i++) session_free(sessions[i]);
  return 0;
}
