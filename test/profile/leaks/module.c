// SPDX-License-Identifier: MIT
// A module of redis with a command that loses memory. By the interface that redis documents, whose
// header is in no package: a context begins with the function that finds the others.
#include <stdlib.h>
#include <string.h>

typedef int command_fn(void* context, void** arguments, int count);
static int (*reply_with_number)(void* context, long long number);
static int (*create_command)(void* context, const char* name, command_fn* run, const char* flags,
                             int first, int last, int step);
static void (*set_attributes)(void* context, const char* name, int version, int api);

static int count_hits(void* context, void** arguments, int count) {
  char* const line = malloc(1500);  // leak
  (void)arguments;
  if (line != NULL) memset(line, count, 1500);
  return reply_with_number(context, count);
}

int RedisModule_OnLoad(void* context, void** arguments, int count) {
  int (*find)(const char* name, void* function);
  (void)arguments, (void)count;
  memcpy(&find, context, sizeof(find));
  if (find("RedisModule_SetModuleAttribs", (void*)&set_attributes) != 0 ||
      find("RedisModule_CreateCommand", (void*)&create_command) != 0 ||
      find("RedisModule_ReplyWithLongLong", (void*)&reply_with_number) != 0) {
    return 1;
  }
  set_attributes(context, "hits", 1, 1);
  return create_command(context, "hits", &count_hits, "", 0, 0, 0);
}
