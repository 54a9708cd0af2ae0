// SPDX-License-Identifier: MIT
// The way into the options: names, the environment, precedence, printing. The values
// themselves lie in base/options.h, where every floor reads them.
//
// A value comes from, in falling precedence: mx_option_set, the environment, mx_option_set_default,
// the build. An index outside of the table reads as 0 and ignores what is set.
#ifndef MX_SERVICE_OPTION_NAMES_H
#define MX_SERVICE_OPTION_NAMES_H

#include "../base/options.h"
#include "log.h"

MX_BEGIN_DECLS

// Reads MIMALLOC_<NAME> of every option, once; later calls do nothing. What is wrong with the
// environment is said through the log, which is set up first if need be.
void mx_options_init(void);
// Version, build, every option with its value.
void mx_options_print(mx_output_fun* out, void* arg);

long mx_option_get(int option);
long mx_option_get_clamp(int option, long min, long max);
// In bytes for options that are sizes; negative values are 0.
size_t mx_option_get_size(int option);
void mx_option_set(int option, long value);
void mx_option_set_default(int option, long value);
// Whether it is a size: then it is stored in KiB and the environment may give it a unit.
bool mx_option_is_size(int option);
// What becomes of a value of an option in the table: itself, or the nearest that it can have.
long mx_option_clamp(int option, long value);
// NULL outside of the table.
const char* mx_option_name(int option);
// Why an option changes nothing in this design; NULL for all that do.
const char* mx_option_unused(int option);
// What `text` means for an option; false when it means nothing.
typedef enum mx_unit_e { MX_IN_NUMBERS, MX_IN_KIB, MX_IN_BYTES } mx_unit_t;
bool mx_option_parse(const char* text, mx_unit_t in, long* value);

MX_END_DECLS

#endif
