// SPDX-License-Identifier: MIT
// The calls on the life of process and threads, giving memory back, and the deferred-free
// function.
#include "../alloc/spare.h"
#include "../base/facts.h"
#include "../base/hooks.h"
#include "../base/options.h"
#include "../heap/theap.h"
#include "../heap/thread_life.h"
#include "../mem/settings.h"
#include "../service/give_back.h"
#include "handles.h"
#include "process_life.h"

// ---- deferred free -----------------------------------------------------------------------------

// The function is out of use while its argument changes, and its caller looks once more whether
// it still is the one whose argument it has read.
void mi_register_deferred_free(mi_deferred_free_fun* fun, void* arg) mi_attr_noexcept {
  const bool outer = mx_settings_open();
  mx_store_release(&mx_settings.deferred_fun, (mx_deferred_fun*)NULL);
  mx_store_release(&mx_settings.deferred_arg, arg);
  mx_store_release(&mx_settings.deferred_fun, (mx_deferred_fun*)fun);
  mx_settings_close(outer);
}

// ---- giving memory back ------------------------------------------------------------------------

void mi_collect(bool force) mi_attr_noexcept {
  mx_theap_t* const theap = mx_thread_theap();
  if (theap == NULL) return;
  mx_theap_deferred_free(theap, force);
  mx_spare_flush(mx_tls_theap);
  mx_thread_collect(force);
  if (force) mx_give_back_now();
  else mx_arenas_purge(&theap->subproc->arenas, false);
}

void mi_collect_reduce(size_t target_thread_owned) mi_attr_noexcept {
  mi_collect(true);
  mx_thread_reduce(target_thread_owned);
}

size_t mi_purge_holes(void) mi_attr_noexcept { return mx_give_back_now(); }

// ---- threads -----------------------------------------------------------------------------------

void mi_thread_init(void) mi_attr_noexcept {
  mx_process_start();
  mx_thread_theap();
}

void mi_thread_done(void) mi_attr_noexcept { mx_thread_done(mx_tls_theap->first); }

void mi_thread_set_in_threadpool(void) mi_attr_noexcept { mx_thread_set_pooled(); }

// ---- the process -------------------------------------------------------------------------------

void mi_process_init(void) mi_attr_noexcept { mx_process_start(); }

void mi_process_done(void) mi_attr_noexcept {
  mi_collect(true);
  mx_process_end();
}

// Windows alone redirects calls when a program is loaded; elsewhere symbols override each other.
bool mi_is_redirected(void) mi_attr_noexcept { return mx_facts.is_redirected; }
