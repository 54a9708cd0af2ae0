// SPDX-License-Identifier: MIT
// The plain data of the base floor: facts, settings and hooks.
#include "facts.h"
#include "hooks.h"
#include "options.h"
#include "sizeclass.h"

#define MX_OPTION_VALUE(name, caps, least, most) (long)(MI_DEFAULT_##caps),
#define MX_OPTION_CHECK(name, caps, least, most)                                    \
  mx_static_assert((MI_DEFAULT_##caps) >= (least) && (MI_DEFAULT_##caps) <= (most), \
                   "MI_DEFAULT_" #caps " is in the range of its option");

MX_OPTIONS(MX_OPTION_CHECK)

mx_facts_t mx_facts;
mx_hooks_t mx_hooks;
mx_visits_t mx_visits;
MX_BEGIN_SPARSE
mx_settings_t mx_settings = {{MX_OPTIONS(MX_OPTION_VALUE)},
                             MX_IN_PLACE_MOST(MI_DEFAULT_ZERO_ON_FREE)};
MX_END_SPARSE
