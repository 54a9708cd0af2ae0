// SPDX-License-Identifier: MIT
// The table of the rows of a report, once for all formats.
#include "report.h"

#define REPORT_FIELD(name, group, label, help) {#name, label, MX_GROUP_##group},
const mx_report_field_t mx_report_fields[MX_ROW_COUNT] = {MX_REPORT_ROWS(REPORT_FIELD)};

const char* const mx_report_titles[MX_GROUP_COUNT] = {
    "in use by the program",
    "free, in pages of blocks",
    "free, outside of them",
    "the library's own",
    "the rest of the process",
};

const char* const mx_report_groups[MX_GROUP_COUNT] = {"used", "free_blocks", "free_memory",
                                                      "library", "rest"};
