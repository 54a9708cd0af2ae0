// SPDX-License-Identifier: MIT
// Failing as C++ has it, the new-handler and std::bad_alloc, also from a library that is C.
#ifndef MX_HOST_CXX_H
#define MX_HOST_CXX_H

#include "../base/compiler.h"

typedef void mx_new_handler_fn(void);

MX_BEGIN_DECLS
// A function of the C++ run-time, which a program that is C may have loaded for a module alone;
// `function` is a pointer to one. False where there is none, or no need to look.
bool mx_cxx_find(const char* name, void* function);
// The program's new-handler, which may throw, or NULL.
mx_new_handler_fn* mx_cxx_new_handler(void);
// Throws std::bad_alloc; returns where the program has no C++.
void mx_cxx_throw_bad_alloc(void);
MX_END_DECLS

#endif
