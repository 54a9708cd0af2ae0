// SPDX-License-Identifier: MIT
// Runs a fuzz target on kept inputs, for compilers without a fuzzer, and on changed ones.
//
//   replay [--words FILE] FOLDER|FILE... [--random COUNT SEED] [--minutes N SEED]
//
// COUNT inputs by chance, or as many as there is time for: two of three are kept inputs with some
// bytes changed, pieces of others or words put in; the third, and all where nothing was kept, are noise.
// Noise alone says little of a target that reads text: no such line is ever the name of an option.
// --words names a dictionary, of the form that libFuzzer and AFL++ read. The input that ends the run is
// kept in the file fuzz-found, to be replayed by its name.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

#define INPUT_MAX 65536

#define RANDOM_MAX 2048
#define POOL_MAX 1024
#define WORDS_MAX 512
#define WORD_MAX 64

typedef struct bytes {
  uint8_t* p;
  size_t size;
} bytes_t;

static unsigned runs;
static bytes_t pool[POOL_MAX];  // the kept inputs
static size_t pool_count;
static bytes_t words[WORDS_MAX];
static size_t word_count;

static bytes_t copy_of(const uint8_t* p, size_t size) {
  // An exact copy, so that a tool sees a read past the end.
  bytes_t copy = {(uint8_t*)malloc(size > 0 ? size : 1), size};
  if (size > 0) memcpy(copy.p, p, size);
  return copy;
}

static FILE* opened(const char* path) {
  FILE* const file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    exit(2);
  }
  return file;
}

static void run_file(const char* path) {
  static uint8_t bytes[INPUT_MAX];
  FILE* const file = opened(path);
  const size_t size = fread(bytes, 1, sizeof(bytes), file);
  fclose(file);
  const bytes_t input = copy_of(bytes, size);
  fprintf(stderr, "%s\n", path);
  LLVMFuzzerTestOneInput(input.p, size);
  if (pool_count < POOL_MAX) pool[pool_count++] = input;
  else free(input.p);
  runs++;
}

// By name, so that a seed means the same everywhere.
static bool run_folder(const char* path) {
  struct dirent** found;
  const int count = scandir(path, &found, NULL, alphasort);
  if (count < 0) return false;
  char name[4096];
  for (int i = 0; i < count; i++) {
    if (found[i]->d_name[0] != '.') {
      snprintf(name, sizeof(name), "%s/%s", path, found[i]->d_name);
      run_file(name);
    }
    free(found[i]);
  }
  free(found);
  return true;
}

// Lines of "word", where \x41 is a character.
static void read_words(const char* path) {
  FILE* const file = opened(path);
  char line[4 * WORD_MAX + 4];
  while (fgets(line, sizeof(line), file) != NULL && word_count < WORDS_MAX) {
    uint8_t word[WORD_MAX];
    size_t size = 0;
    if (line[0] != '"') continue;
    for (const char* p = line + 1; *p != 0 && *p != '"' && size < WORD_MAX; p++) {
      unsigned code = (uint8_t)*p;
      if (p[0] == '\\' && sscanf(p, "\\x%2x", &code) == 1) p += 3;
      word[size++] = (uint8_t)code;
    }
    words[word_count++] = copy_of(word, size);
  }
  fclose(file);
}

// ---- inputs by chance --------------------------------------------------------------------------

static uint64_t random_state;
static uint8_t random_bytes[RANDOM_MAX];
static size_t random_size;

static size_t any_below(size_t end) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return end == 0 ? 0 : (size_t)(random_state >> 33) % end;
}

static void make_noise(size_t size) {
  for (size_t i = 0; i < size; i++) random_bytes[i] = (uint8_t)any_below(256);
  random_size = size;
}

// Any place; in texts, which have words, mostly one behind a line's end or a name's.
static size_t any_place(void) {
  const size_t at = any_below(random_size + 1);
  if (word_count == 0 || any_below(3) == 0) return at;
  const char sign = (any_below(2) == 0 ? '\n' : '=');
  for (size_t i = at; i > 0; i--) {
    if (random_bytes[i - 1] == sign) return i;
  }
  return sign == '\n' ? 0 : at;
}

// Puts bytes at a place, in front of what is there or over it.
static void put(const uint8_t* p, size_t size, bool over) {
  const size_t at = any_place();
  if (size > RANDOM_MAX - at) size = RANDOM_MAX - at;
  if (!over) {
    const size_t rest = random_size - at;
    const size_t kept = (rest < RANDOM_MAX - at - size ? rest : RANDOM_MAX - at - size);
    memmove(random_bytes + at + size, random_bytes + at, kept);
    random_size = at + size + kept;
  }
  memcpy(random_bytes + at, p, size);
  if (at + size > random_size) random_size = at + size;
}

static void put_piece_of(const bytes_t* other) {
  const size_t from = any_below(other->size);
  put(other->p + from, 1 + any_below(other->size - from), any_below(2) == 0);
}

static void put_digits(void) {
  uint8_t digits[24];
  const size_t size = 1 + any_below(sizeof(digits));
  for (size_t i = 0; i < size; i++) digits[i] = (uint8_t)('0' + any_below(10));
  put(digits, size, any_below(2) == 0);
}

static void leave_out(void) {
  const size_t at = any_below(random_size), count = any_below(random_size - at) / (1 + any_below(8));
  memmove(random_bytes + at, random_bytes + at + count, random_size - at - count);
  random_size -= count;
}

static void change(void) {
  static const uint8_t ends[] = {0, 1, 0x7f, 0x80, 0xff, '0', '9', '-', '\n'};
  const size_t at = any_below(random_size);
  switch (any_below(word_count > 0 ? 9 : 6)) {
    case 0: if (random_size > 0) random_bytes[at] ^= (uint8_t)(1u << any_below(8)); break;
    case 1: if (random_size > 0) random_bytes[at] = (uint8_t)any_below(256); break;
    case 2: put(&ends[any_below(sizeof(ends))], 1, any_below(2) == 0); break;
    case 3: if (random_size > 0) leave_out(); break;
    case 4: {  // once more what is there
      static uint8_t same[64];
      const size_t left = random_size - at, size = any_below(left < sizeof(same) ? left : sizeof(same));
      memcpy(same, random_bytes + at, size);
      put(same, size, false);
      break;
    }
    case 5: {
      const bytes_t* const other = &pool[any_below(pool_count)];
      if (other->size > 0) put_piece_of(other);
      break;
    }
    case 6: put_digits(); break;
    default: {
      const bytes_t* const word = &words[any_below(word_count)];
      put(word->p, word->size, any_below(3) == 0);
    }
  }
}

static void change_kept(void) {
  const bytes_t* const kept = &pool[any_below(pool_count)];
  random_size = (kept->size < RANDOM_MAX ? kept->size : RANDOM_MAX);
  memcpy(random_bytes, kept->p, random_size);
  for (size_t changes = 1 + any_below(6); changes > 0; changes--) change();
}

static void keep_random(int sig) {
  const int file = open("fuzz-found", O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (file >= 0 && write(file, random_bytes, random_size) == (ssize_t)random_size) {
    static const char text[] = "The input is in fuzz-found\n";
    if (write(2, text, sizeof(text) - 1) < 0) _exit(3);
  }
  signal(sig, SIG_DFL);
  raise(sig);
}

static void run_random(unsigned count, double seconds, uint64_t seed) {
  signal(SIGABRT, keep_random);
  signal(SIGSEGV, keep_random);
  const time_t end = time(NULL) + (time_t)seconds;
  random_state = seed;
  for (unsigned n = 0; count > 0 ? n < count : time(NULL) < end; n++) {
    if (pool_count > 0 && n % 3 != 0) change_kept();
    else make_noise(64u << (n % 6));
    const bytes_t input = copy_of(random_bytes, random_size);
    LLVMFuzzerTestOneInput(input.p, input.size);
    free(input.p);
    runs++;
  }
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    const bool by_time = strcmp(argv[i], "--minutes") == 0;
    if ((by_time || strcmp(argv[i], "--random") == 0) && i + 2 < argc) {
      run_random(by_time ? 0 : (unsigned)atoi(argv[i + 1]), by_time ? 60 * atof(argv[i + 1]) : 0,
                 (uint64_t)atoll(argv[i + 2]));
      i += 2;
      continue;
    }
    if (strcmp(argv[i], "--words") == 0 && i + 1 < argc) {
      read_words(argv[++i]);
    } else if (!run_folder(argv[i])) {
      run_file(argv[i]);
    }
  }
  printf("%u inputs\n", runs);
  return runs > 0 ? 0 : 1;
}
