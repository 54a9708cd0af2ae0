// SPDX-License-Identifier: MIT
// Failing as C++ has it, the new-handler and std::bad_alloc, also from a library that is C.
#ifndef MX_HOST_CXX_H
#define MX_HOST_CXX_H

#include "../base/compiler.h"

MX_BEGIN_DECLS
// A function of the C++ run-time, which a program that is C may have loaded for a module alone;
// `function` is a pointer to one. False where there is none, or no need to look.
bool mx_cxx_find(const char* name, void* function);
// Runs the program's new-handler: true when there was one, and the caller should try again. It may
// throw.
bool mx_cxx_run_new_handler(void);
bool mx_cxx_has_new_handler(void);
// Throws std::bad_alloc; returns where the program has no C++.
void mx_cxx_throw_bad_alloc(void);
MX_END_DECLS

#endif
