// SPDX-License-Identifier: MIT
// Misuse that only C++ has: the wrong form of delete, the wrong size, and what its containers hand out.
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "twin.h"

// ---- forms of new and delete --------------------------------------------------------------------

static void* made(size_t size) { return twin_must(::operator new(size)); }
static void* made_array(size_t size) { return twin_must(::operator new[](size)); }

static void finish(size_t size) {
  twin_done();
  twin_cycle(size);
  twin_after("reuse");
}

static void sized_as(size_t size, size_t said) {
  void* p = made(size);
  twin_ready();
  ::operator delete(p, said);
  finish(size);
}

static void sized_larger(size_t size, bool wrong) { sized_as(size, wrong ? 2 * size : size); }
static void sized_smaller(size_t size, bool wrong) { sized_as(size, wrong ? size / 2 : size); }
static void sized_near(size_t size, bool wrong) { sized_as(size, wrong ? size - 1 : size); }

static void sized_array(size_t size, bool wrong) {
  void* p = made_array(size);
  twin_ready();
  ::operator delete[](p, wrong ? size / 2 : size);
  finish(size);
}

struct Base {
  long words[2];
};

struct Derived : Base {
  char more[160];
};

// Without a virtual destructor delete passes on the size of the base class.
static void base_class(size_t size, bool wrong) {
  Derived* derived = new Derived;
  twin_ready();
  if (wrong) {
    delete static_cast<Base*>(static_cast<void*>(twin_hide(derived)));
  } else {
    delete derived;
  }
  finish(size);
}

template <size_t N>
struct Plain {
  char bytes[N];
};

// One delete of the type and a new[] of it: without a destructor the pointer is the same.
template <size_t N>
static void plain_array(bool wrong) {
  typedef Plain<N> plain_t;
  plain_t* p = new plain_t[3];
  twin_ready();
  if (wrong) {
    delete static_cast<plain_t*>(static_cast<void*>(twin_hide(p)));
  } else {
    delete[] p;
  }
  finish(N);
}

static void array_by_delete(size_t size, bool wrong) {
  if (size < 1000) return plain_array<24>(wrong);
  if (size < 100000) return plain_array<4000>(wrong);
  if (size < MIB) return plain_array<200000>(wrong);
  plain_array<8 * MIB>(wrong);
}

template <size_t N>
struct Watched {
  char bytes[N];
  ~Watched() { twin_sink = (unsigned char)bytes[0]; }
};

// With one, new[] puts the number of elements in front: delete gets an address inside the block.
template <size_t N>
static void watched_array(bool wrong) {
  typedef Watched<N> watched_t;
  watched_t* p = new watched_t[3];
  twin_ready();
  if (wrong) {
    delete static_cast<watched_t*>(static_cast<void*>(twin_hide(p)));
  } else {
    delete[] p;
  }
  finish(N);
}

static void objects_by_delete(size_t size, bool wrong) {
  if (size < 1000) return watched_array<24>(wrong);
  if (size < 100000) return watched_array<4000>(wrong);
  if (size < MIB) return watched_array<200000>(wrong);
  watched_array<8 * MIB>(wrong);
}

static void aligned_as_plain(size_t size, bool wrong) {
  const std::align_val_t align{256};
  void* p = twin_must(::operator new(size, align));
  twin_ready();
  if (wrong) {
    ::operator delete(p, size);
  } else {
    ::operator delete(p, size, align);
  }
  finish(size);
}

static void wrong_alignment(size_t size, bool wrong) {
  void* p = twin_must(::operator new(size, std::align_val_t{64}));
  twin_ready();
  ::operator delete(p, size, std::align_val_t{wrong ? size_t{65536} : size_t{64}});
  finish(size);
}

static void delete_twice(size_t size, bool wrong) {
  void* p = made(size);
  ::operator delete(twin_hide(p), size);
  for (int i = 0; i < 50; i++) ::operator delete(made(size), size);
  twin_ready();
  if (wrong) ::operator delete(twin_hide(p), size);
  finish(size);
}

static void delete_stack(size_t size, bool wrong) {
  alignas(64) unsigned char place[4096];
  twin_fill(place, sizeof(place), 0);
  void* p = made(size);
  twin_ready();
  ::operator delete(wrong ? twin_hide(place + 1024) : p);
  finish(size);
}

// ---- the two families mixed ---------------------------------------------------------------------

static void free_of_new(size_t size, bool wrong) {
  void* p = made(size);
  twin_ready();
  if (wrong) free(p);
  else ::operator delete(p);
  finish(size);
}

static void delete_of_malloc(size_t size, bool wrong) {
  void* p = twin_malloc(size);
  twin_ready();
  if (wrong) ::operator delete(p);
  else free(p);
  finish(size);
}

static void array_form(size_t size, bool wrong) {
  void* p = made_array(size);
  twin_ready();
  if (wrong) ::operator delete(p);
  else ::operator delete[](p);
  finish(size);
}

// ---- containers ---------------------------------------------------------------------------------

static void vector_past_end(size_t size, bool wrong) {
  auto chars = std::make_unique<std::vector<char>>(size);
  volatile char* first = chars->data();
  twin_ready();
  for (size_t i = 0; i < size + (wrong ? 32 : 0); i++) first[i] = 'x';
  twin_done();
  chars.reset();
  twin_after("delete");
}

// A pointer into a vector from before it grew.
static void vector_stale(size_t size, bool wrong) {
  std::vector<char> chars(size, 'a');
  volatile char* kept = chars.data();
  for (size_t i = 0; i <= size; i++) chars.push_back('b');
  if (!wrong) kept = chars.data();
  twin_ready();
  for (size_t i = 0; i < size; i++) kept[i] = 'x';
  twin_done();
  { std::vector<std::string> later(200, std::string(size < MIB ? size : 32, 'c')); }
  twin_cycle(size);
  twin_after("reuse");
}

// Two owners of one object.
static void two_owners(size_t size, bool wrong) {
  std::unique_ptr<char[]> first(new char[size]);
  char* raw = first.get();
  first.reset();
  if (!wrong) raw = new char[size];
  twin_ready();
  std::unique_ptr<char[]>(reinterpret_cast<char*>(twin_hide(raw))).reset();
  finish(size);
}

#define SIZED "C++: delete with another size, type or alignment"
#define FORMS "C++: delete of what new[] made"
#define WRONG "C++: delete of what is no block"
#define MIXED "C++: malloc, new and new[] mixed, size and pointer right"
#define HELD "C++: containers and owners"

static const twin_case_t cases[] = {
  {"sized-larger", SIZED, "twice the size", sized_larger, NULL},
  {"sized-smaller", SIZED, "half the size", sized_smaller, NULL},
  {"sized-near", SIZED, "one byte less", sized_near, NULL},
  {"sized-array", SIZED, "half the size, by the array form", sized_array, NULL},
  {"base-class", SIZED, "an object as one of its base class", base_class, "24"},
  {"aligned-as-plain", SIZED, "an aligned block by the plain form", aligned_as_plain, NULL},
  {"wrong-alignment", SIZED, "an aligned block with a larger alignment", wrong_alignment, NULL},
  {"array-by-delete", FORMS, "an array of three plain objects", array_by_delete, NULL},
  {"objects-by-delete", FORMS, "an array of three objects with a destructor", objects_by_delete, NULL},
  {"delete-twice", WRONG, "deleted before, 50 others between", delete_twice, NULL},
  {"delete-stack", WRONG, "on the stack", delete_stack, NULL},
  {"free-of-new", MIXED, "free of what new made", free_of_new, NULL},
  {"delete-of-malloc", MIXED, "delete of what malloc made", delete_of_malloc, NULL},
  {"array-form", MIXED, "operator delete of what operator new[] made", array_form, NULL},
  {"vector-past-end", HELD, "32 bytes past the end of a vector", vector_past_end, NULL},
  {"vector-stale", HELD, "writes to a vector's memory from before it grew", vector_stale, NULL},
  {"two-owners", HELD, "two unique_ptr of one array", two_owners, NULL},
};

TWINS(cases)
