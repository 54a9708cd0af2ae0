// SPDX-License-Identifier: MIT
// Owns the plain data of the base floor: facts, option values and hooks.
#include "facts.h"
#include "hooks.h"
#include "options.h"

#define MX_OPTION_VALUE(name, value) (long)(value),

mx_facts_t mx_facts;
mx_hooks_t mx_hooks;
mx_atomic(long) mx_option_values[mx_opt_count] = {MX_OPTIONS(MX_OPTION_VALUE)};
