// SPDX-License-Identifier: MIT
// Calls every operator that mimalloc-new-delete.h defines, from C++98 to C++23.
#include <mimalloc-new-delete.h>

#include <new>

namespace {

void* volatile sink;

void* keep(void* p) {
  sink = p;
  return p;
}

void use_plain() {
  ::operator delete(keep(::operator new(10)));
  ::operator delete[](keep(::operator new[](10)));
  ::operator delete(keep(::operator new(10, std::nothrow)), std::nothrow);
  ::operator delete[](keep(::operator new[](10, std::nothrow)), std::nothrow);
#if defined(__cpp_sized_deallocation)
  ::operator delete(keep(::operator new(10)), std::size_t(10));
  ::operator delete[](keep(::operator new[](10)), std::size_t(10));
#endif
}

void use_aligned() {
#if defined(__cpp_aligned_new)
  const std::align_val_t al = std::align_val_t(64);
  ::operator delete(keep(::operator new(10, al)), al);
  ::operator delete[](keep(::operator new[](10, al)), al);
  ::operator delete(keep(::operator new(10, al, std::nothrow)), al, std::nothrow);
  ::operator delete[](keep(::operator new[](10, al, std::nothrow)), al, std::nothrow);
#if defined(__cpp_sized_deallocation)
  ::operator delete(keep(::operator new(10, al)), std::size_t(10), al);
  ::operator delete[](keep(::operator new[](10, al)), std::size_t(10), al);
#endif
#endif
}

}  // namespace

#if __cplusplus >= 201703L && !defined(__cpp_aligned_new)
#error "C++17 without aligned operators"
#endif

int main(int argc, char** argv) {
  if (argc > 1000 && argv) {
    use_plain();
    use_aligned();
    delete new int(argc);
    delete[] new int[3];
  }
  return (mi_version() > 0 ? 0 : 1);
}
