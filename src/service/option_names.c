// SPDX-License-Identifier: MIT
// The names of the options and what the environment says about them.
//
// The environment is walked once. Each MIMALLOC_ entry is matched, without regard to case, against
// the names of the table and the older names; the first entry of a name counts. Then every option
// takes its own entry, or else one of an older name. Unknown names are ignored: they may be meant
// for another version.
//
// Invariant: origins[i] only rises, so what a program has set survives a late reading of the
// environment.
#include "option_names.h"

#include <string.h>

#include "../alloc/sample.h"
#include "../base/bits.h"
#include "../base/hooks.h"
#include "../mem/settings.h"
#include "../os/os.h"
#include "../profile/profile.h"
#include "give_back.h"

#define ENVIRON_MAX 10000  // entries looked at
#define VALUE_MAX 64       // characters of a value

#define LISTS_LEAKS (MX_DEBUG > 0 && MX_LIVE_BITS)
#define CHECKS_FREES (MX_CHECKED_FREE || MX_PADDING || MX_ENCODE_LINKS || MX_TRACK)

enum { FROM_DEFAULT, FROM_ENVIRONMENT, FROM_PROGRAM };

// One text behind the other: pointers to them would be written by the dynamic linker at each start.
#define OPTION_ROOM(name, caps, least, most) char name[sizeof(#name)];
typedef struct names_s { MX_OPTIONS(OPTION_ROOM) } names_t;
#define OPTION_NAME(name, caps, least, most) #name,
static const names_t names = {MX_OPTIONS(OPTION_NAME)};
#define OPTION_NAME_AT(name, caps, least, most) offsetof(names_t, name),
static const uint16_t name_at[mx_opt_count] = {MX_OPTIONS(OPTION_NAME_AT)};

static const char* name_of(int option) { return (const char*)&names + name_at[option]; }

typedef struct option_range_s {
  long least, most;
} option_range_t;

#define OPTION_RANGE(name, caps, least, most) {(least), (most)},
static const option_range_t option_ranges[mx_opt_count] = {MX_OPTIONS(OPTION_RANGE)};

static mx_atomic(int) origins[mx_opt_count];
static mx_at_start mx_atomic(int) is_read;

// How the value of an older name becomes one of the present option.
enum {
  AS_IS,
  OFF_IS_NEVER,  // 0 forbade giving memory back, as purge_delay=-1 does now; else nothing to do
  NO_EFFECT
};

typedef struct older_name_s {
  char name[28];
  int16_t option;
  int16_t meaning;
} older_name_t;

static const older_name_t older_names[] = {
    {"eager_region_commit", mx_opt_arena_eager_commit, AS_IS},
    {"reset_decommits", mx_opt_purge_decommits, AS_IS},
    {"large_os_pages", mx_opt_allow_large_os_pages, AS_IS},
    {"reset_delay", mx_opt_purge_delay, AS_IS},
    {"decommit_delay", mx_opt_purge_delay, AS_IS},
    {"segment_decommit_delay", mx_opt_purge_delay, AS_IS},
    {"page_reset", mx_opt_purge_delay, OFF_IS_NEVER},
    {"allow_decommit", mx_opt_purge_delay, OFF_IS_NEVER},
    {"limit_os_alloc", mx_opt_disallow_os_alloc, AS_IS},
    {"abandoned_reclaim_on_free", mx_opt_page_reclaim_on_free, AS_IS},
    {"stats", mx_opt_show_stats, AS_IS},
    {"eager_commit", mx_opt_deprecated_eager_commit, NO_EFFECT},
    {"pool_commit", mx_opt_deprecated_eager_commit, NO_EFFECT},
    {"segment_cache", mx_opt_deprecated_segment_cache, NO_EFFECT},
    {"cache_reset", mx_opt_deprecated_segment_cache, NO_EFFECT},
    {"abandoned_page_reset", mx_opt_deprecated_abandoned_page_purge, NO_EFFECT},
    {"abandoned_page_decommit", mx_opt_deprecated_abandoned_page_purge, NO_EFFECT},
    {"abandoned_page_purge", mx_opt_deprecated_abandoned_page_purge, NO_EFFECT},
    {"segment_reset", mx_opt_deprecated_segment_reset, NO_EFFECT},
    {"eager_commit_delay", mx_opt_deprecated_eager_commit_delay, NO_EFFECT},
    {"max_segment_reclaim", mx_opt_deprecated_max_segment_reclaim, NO_EFFECT},
    {"decommit_extend_delay", mx_opt_deprecated_purge_extend_delay, NO_EFFECT},
    {"purge_extend_delay", mx_opt_deprecated_purge_extend_delay, NO_EFFECT},
    {"target_segments_per_thread", mx_opt_deprecated_max_segment_reclaim, NO_EFFECT},
    {"secure", -1, NO_EFFECT},
};

#define OLDER_COUNT (sizeof(older_names) / sizeof(older_names[0]))

static bool in_table(int option) { return option >= 0 && option < mx_opt_count; }

const char* mx_option_name(int option) { return in_table(option) ? name_of(option) : NULL; }

bool mx_option_is_size(int option) {
  switch (option) {
    case mx_opt_reserve_os_memory:
    case mx_opt_arena_reserve:
    case mx_opt_minimal_purge_size:
    case mx_opt_arena_max_object_size:
    case mx_opt_memory_limit:
    case mx_opt_prof_memory: return true;
    default: return false;
  }
}

// Sizes that are bytes: some are less than one KiB.
static bool is_in_bytes(int option) {
  return option == mx_opt_prof_rate || option == mx_opt_prof_interval || option == mx_opt_prof_peak;
}

const char* mx_option_unused(int option) {
  switch (option) {
    case mx_opt_deprecated_eager_commit:
    case mx_opt_deprecated_eager_commit_delay: return "pages are committed as they grow";
    case mx_opt_deprecated_segment_cache:
    case mx_opt_deprecated_segment_reset:
    case mx_opt_deprecated_max_segment_reclaim: return "there are no segments any more";
    case mx_opt_deprecated_page_reset:
    case mx_opt_deprecated_purge_extend_delay: return "purge_delay alone decides";
    case mx_opt_check_every:
    case mx_opt_zero_on_free:
      return (option == mx_opt_zero_on_free ? CHECKS_FREES : MX_PADDING)
                 ? NULL : "only builds that check blocks (MI_SECURE, MI_DEBUG) do that";
    case mx_opt_theap_retain: return MX_PARKS ? NULL : "builds for tools abandon each page";
    case mx_opt_leak_report: return LISTS_LEAKS ? NULL : "only debug builds list live blocks";
    case mx_opt_page_commit_on_demand: return "OS pages are counted as they are carved, always";
    case mx_opt_page_max_reclaim: return "a page that was taken over is used at once";
    case mx_opt_retry_on_oom:
      return MX_MAPS_WHOLE ? NULL : "only Windows refuses memory for a moment";
    case mx_opt_os_tag: return "only macOS has tags for memory";
    case mx_opt_deprecated_abandoned_page_purge: return "abandoned pages are purged like others";
    case -1: return "the safe modes are chosen when the library is built";
    default: return NULL;
  }
}

// ---- values ------------------------------------------------------------------------------------

static char to_upper(char c) { return (c >= 'a' && c <= 'z') ? (char)(c - 'a' + 'A') : c; }

// Whether `text` is `word` (upper case) and ends with it.
static bool is_word(const char* text, const char* word) {
  while (*word != 0 && to_upper(*text) == *word) text++, word++;
  return *word == 0 && *text == 0;
}

// One of several words, behind each of which and behind all of which there is a 0.
static bool is_one_of(const char* text, const char* words) {
  for (; *words != 0; words += strlen(words) + 1) {
    if (is_word(text, words)) return true;
  }
  return false;
}

// Reads the unit of a size; leaves *text behind it. 0 when there is none that is known.
static size_t parse_unit(const char** text) {
  size_t unit = 1;
  switch (to_upper(**text)) {
    case 'T': unit = MX_64BIT ? MX_KIB * MX_GIB : 0; break;
    case 'G': unit = MX_GIB; break;
    case 'M': unit = MX_MIB; break;
    case 'K': unit = MX_KIB; break;
    case 'B': (*text)++; return 1;
    default: return 1;
  }
  (*text)++;
  if (to_upper((*text)[0]) == 'I' && to_upper((*text)[1]) == 'B') *text += 2;
  else if (to_upper(**text) == 'B') *text += 1;
  return unit;
}

// Bytes as they are, bounded by what an option can hold.
static long whole_bytes(size_t number, size_t unit, bool overflowed) {
  size_t bytes = 0;
  if (overflowed || unit == 0 || mx_mul_overflow(number, unit, &bytes)) return LONG_MAX;
  return bytes > (size_t)LONG_MAX ? LONG_MAX : (long)bytes;
}

// Bytes to whole KiB, bounded by the largest block that there can be.
static long to_kib(size_t number, size_t unit, bool overflowed) {
  const size_t max = (size_t)MX_KIB_MAX;
  size_t bytes = 0;
  if (overflowed || unit == 0 || mx_mul_overflow(number, unit, &bytes)) return (long)max;
  return (long)mx_min(bytes / MX_KIB + (bytes % MX_KIB != 0), max);
}

bool mx_option_parse(const char* text, mx_unit_t in, long* value) {
  size_t length = 0;
  while (text[length] != 0) {
    if (++length > VALUE_MAX) return false;
  }
  if (length == 0 || is_one_of(text, "1\0TRUE\0YES\0ON\0")) { *value = 1; return true; }
  if (is_one_of(text, "0\0FALSE\0NO\0OFF\0")) { *value = 0; return true; }
  while (*text == ' ' || *text == '\t') text++;
  const bool negative = (*text == '-');
  if (*text == '-' || *text == '+') text++;
  if (*text < '0' || *text > '9') return false;
  size_t number = 0;
  bool overflowed = false;
  for (; *text >= '0' && *text <= '9'; text++) {
    const size_t digit = (size_t)(*text - '0');
    if (number > (SIZE_MAX - digit) / 10) overflowed = true;
    else number = number * 10 + digit;
  }
  const size_t unit = (in != MX_IN_NUMBERS ? parse_unit(&text) : 1);
  if (*text != 0) return false;
  if (in != MX_IN_NUMBERS) {
    *value = (in == MX_IN_KIB ? to_kib(number, unit, overflowed)
                              : whole_bytes(number, unit, overflowed));
  } else {
    *value = (overflowed ? LONG_MAX : (long)mx_min(number, LONG_MAX));
  }
  // What is beyond an option's range is told when it is clamped.
  if (negative) *value = -*value;
  return true;
}

long mx_option_clamp(int option, long value) {
  const option_range_t* const range = &option_ranges[option];
  return value < range->least ? range->least : (value > range->most ? range->most : value);
}

static void set_value(int option, long value) {
  const bool outer = mx_settings_open();
  mx_store_relaxed(&mx_option_values[option], value);
  if (MX_CLEAR_FREED && option == mx_opt_zero_on_free) {
    mx_store_relaxed(&mx_settings.in_place_most, MX_IN_PLACE_MOST(value));
  }
  mx_settings_close(outer);
}

// Writes a value unless one of higher standing is there.
static void store(int option, long wanted, int origin) {
  if (mx_load_relaxed(&origins[option]) > origin) return;
  mx_store_relaxed(&origins[option], origin);
  const long value = mx_option_clamp(option, wanted);
  if (value != wanted) {
    const char* const unit = (mx_option_is_size(option) ? " KiB" : "");
    mx_warning("option %s: %ld%s is beyond what it can be; it is %ld%s\n", name_of(option), wanted,
               unit, value, unit);
  }
  set_value(option, value);
  // A range stays a range: the end that was not named follows the other.
  const bool is_min = (option == mx_opt_guarded_min);
  if (!is_min && option != mx_opt_guarded_max) return;
  const int other = (is_min ? mx_opt_guarded_max : mx_opt_guarded_min);
  const long there = mx_load_relaxed(&mx_option_values[other]);
  if (is_min ? value > there : value < there) set_value(other, value);
}

// ---- the environment ---------------------------------------------------------------------------

typedef struct findings_s {
  const char* own[mx_opt_count];  // values by present name, NULL where there is none
  const char* older[OLDER_COUNT];
} findings_t;

// The text behind `prefix` when `entry` begins with it, in any case.
static const char* skip_prefix(const char* entry, const char* prefix) {
  while (*prefix != 0) {
    if (to_upper(*entry++) != to_upper(*prefix++)) return NULL;
  }
  return entry;
}

static const char* value_of(const char* entry, const char* name) {
  const char* const rest = skip_prefix(entry, name);
  return (rest != NULL && *rest == '=') ? rest + 1 : NULL;
}

static void note_entry(const char* entry, findings_t* found) {
  for (int i = 0; i < mx_opt_count; i++) {
    const char* const value = value_of(entry, name_of(i));
    if (value == NULL) continue;
    if (found->own[i] == NULL) found->own[i] = value;
    return;
  }
  for (size_t i = 0; i < OLDER_COUNT; i++) {
    const char* const value = value_of(entry, older_names[i].name);
    if (value == NULL) continue;
    if (found->older[i] == NULL) found->older[i] = value;
    return;
  }
}

static void warn_invalid(int option, const char* name, const char* value) {
  // A bad MIMALLOC_VERBOSE cannot be shown by the option that it was to set, so it shows itself.
  const bool forced = (option == mx_opt_verbose && mx_option(verbose) == 0);
  if (forced) set_value(mx_opt_verbose, 1);
  mx_warning("environment option mimalloc_%s has an invalid value: \"%.*s\" (it stays %ld%s)\n",
             name, VALUE_MAX, value,
             forced ? 0L : mx_load_relaxed(&mx_option_values[option]),
             mx_option_is_size(option) ? " KiB" : "");
  if (forced) set_value(mx_opt_verbose, 0);
}

static mx_unit_t unit_of(int option) {
  if (is_in_bytes(option)) return MX_IN_BYTES;
  return mx_option_is_size(option) ? MX_IN_KIB : MX_IN_NUMBERS;
}

static void take_own(int option, const char* text) {
  long value = 0;
  if (!mx_option_parse(text, unit_of(option), &value)) {
    warn_invalid(option, name_of(option), text);
    return;
  }
  store(option, value, FROM_ENVIRONMENT);
  const char* const reason = mx_option_unused(option);
  if (reason != NULL) {
    mx_verbose("environment option mimalloc_%s has no effect: %s\n", name_of(option), reason);
  }
}

static void take_older(const older_name_t* older, const char* text) {
  const char* const reason = mx_option_unused(older->option);
  if (reason != NULL) {
    mx_verbose("environment option mimalloc_%s has no effect: %s\n", older->name, reason);
  }
  if (older->option < 0) return;
  long value = 0;
  if (!mx_option_parse(text, unit_of(older->option), &value)) {
    warn_invalid(older->option, older->name, text);
    return;
  }
  if (older->meaning == AS_IS) {
    mx_warning("environment option \"mimalloc_%s\" is deprecated -- use \"mimalloc_%s\" instead.\n",
               older->name, name_of(older->option));
  } else if (older->meaning == OFF_IS_NEVER) {
    mx_warning("environment option \"mimalloc_%s\" is deprecated -- "
               "use \"mimalloc_purge_delay=-1\" instead of 0.\n", older->name);
    if (value != 0) return;
    value = -1;
  }
  // The first of several older names counts.
  if (mx_load_relaxed(&origins[older->option]) != FROM_DEFAULT) return;
  store(older->option, value, FROM_ENVIRONMENT);
}

void mx_options_init(void) {
  if (mx_load_acquire(&is_read) != 0) return;
  mx_log_init();
  // None yet, on systems that set it up late: a later call finds it.
  char** const environment = mx_os_environ();
  if (environment == NULL || mx_exchange_acq_rel(&is_read, 1) != 0) return;
  findings_t found = {{NULL}, {NULL}};
  for (int i = 0; i < ENVIRON_MAX && environment[i] != NULL; i++) {
    const char* const entry = skip_prefix(environment[i], "mimalloc_");
    if (entry != NULL) note_entry(entry, &found);
  }
  // What decides on messages comes first, so that it holds for all that the rest brings about.
  static const int first[] = {mx_opt_verbose, mx_opt_show_errors, mx_opt_max_errors,
                              mx_opt_max_warnings};
  for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
    if (found.own[first[i]] != NULL) take_own(first[i], found.own[first[i]]);
    found.own[first[i]] = NULL;
  }
  for (int i = 0; i < mx_opt_count; i++) {
    if (found.own[i] != NULL) take_own(i, found.own[i]);
  }
  for (size_t i = 0; i < OLDER_COUNT; i++) {
    if (found.older[i] != NULL) take_older(&older_names[i], found.older[i]);
  }
}

// ---- access ------------------------------------------------------------------------------------

long mx_option_get(int option) {
  if (!in_table(option)) return 0;
  mx_options_init();
  return mx_load_relaxed(&mx_option_values[option]);
}

long mx_option_get_clamp(int option, long min, long max) {
  const long value = mx_option_get(option);
  return value < min ? min : (value > max ? max : value);
}

size_t mx_option_get_size(int option) {
  const long value = mx_option_get(option);
  if (value <= 0) return 0;
  if (!mx_option_is_size(option)) return (size_t)value;
  size_t bytes = 0;
  return mx_mul_overflow((size_t)value, MX_KIB, &bytes) ? MX_MAX_ALLOC : bytes;
}

// What follows from some options happens at once, not at their next use.
static void follow(int option) {
  switch (option) {
    case mx_opt_memory_limit:
    case mx_opt_memory_limit_hard:
    case mx_opt_cgroup_limit: mx_limits_apply(); break;
    case mx_opt_background_purge: mx_scavenger_apply(); break;
    case mx_opt_purge_delay: mx_purge_apply(); break;
    case mx_opt_guarded_sample_rate: mx_sample_apply(); break;
    case mx_opt_prof: mx_prof_apply(); break;
    case mx_opt_prof_rate:
      if (mx_prof_is_on()) mx_prof_start(0);
      break;
    default: break;
  }
}

void mx_option_set(int option, long value) {
  if (!in_table(option)) return;
  mx_options_init();
  store(option, value, FROM_PROGRAM);
  follow(option);
}

void mx_option_set_default(int option, long value) {
  if (!in_table(option)) return;
  mx_options_init();
  store(option, value, FROM_DEFAULT);
  follow(option);
}

void mx_options_print(mx_output_fun* fun, void* arg) {
  mx_out_t out;
  mx_out_open(&out, fun, arg);
  mx_options_init();
  mx_out_add(&out, "v%d.%d.%d, %s\n", MX_VERSION / 10000, MX_VERSION / 100 % 100, MX_VERSION % 100,
             MX_DEBUG > 0 ? "debug" : "release");
  for (int i = 0; i < mx_opt_count; i++) {
    mx_out_add(&out, "option '%s': %ld%s%s\n", name_of(i), mx_load_relaxed(&mx_option_values[i]),
               mx_option_is_size(i) ? " KiB" : "",
               mx_option_unused(i) != NULL ? " (no effect)" : "");
  }
  mx_out_add(&out, "debug level : %d\n", MX_DEBUG);
  mx_out_add(&out, "secure level: %d\n", MX_SECURE);
  mx_out_add(&out, "mem tracking: %s\n", MX_TRACK_NAME);
}
