// SPDX-License-Identifier: MIT
// The question of C++ tests whether something fails as operator new does.
#ifndef MX_TEST_THROWS_H
#define MX_TEST_THROWS_H

#include <new>

template <class F>
static bool throws_bad_alloc(F f) {
  try {
    f();
  } catch (const std::bad_alloc&) {
    return true;
  }
  return false;
}

#endif
