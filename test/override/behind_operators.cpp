// SPDX-License-Identifier: MIT
// A library with operators of its own, as other allocators have, for override.cpp: it lies between
// the library and C++'s in the order of loading, and is never asked.
#include <cstddef>
#include <new>

static char block[16];

void* operator new(std::size_t, const std::nothrow_t&) noexcept { return block; }
void* operator new[](std::size_t, const std::nothrow_t&) noexcept { return block; }
void* operator new(std::size_t, std::align_val_t, const std::nothrow_t&) noexcept { return block; }
void* operator new[](std::size_t, std::align_val_t, const std::nothrow_t&) noexcept {
  return block;
}
