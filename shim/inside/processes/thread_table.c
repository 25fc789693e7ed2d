/* The thread table: which threads are alive, for the watcher (formats/spool/spool.h describes the layout).
 *
 * A thread takes an entry by a compare-and-swap of its state, and fills it itself. Threads of a killed process cannot
 * remove their entries; the watcher finds out that they are gone. */
#include "inside/processes/thread_table.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "inside/arenas/arenas.h"
#include "inside/core/thread_state.h"
#include "inside/native/images.h"
#include "inside/python/python.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/loss.h"
#include "shared/objects/thread_name.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/table/entries.h"

static void fill_python(struct thread_entry *entry) {
  entry->python_version = python_layout ? python_version : 0;
  entry->runtime = python_symbols.runtime;
  entry->runtime_bytes = python_symbols.runtime_bytes;
  entry->code_type = python_symbols.code_type;
}

static void fill(struct thread_entry *entry) {
  entry->process = spool_process();
  entry->thread = this_thread.id;
  entry->pid = (int32_t)syscall(SYS_getpid);
  entry->tid = this_thread.tid;
  entry->pid_namespace = spool_pid_namespace();
  fill_python(entry);
  entry->pthread = (uint64_t)pthread_self();
  entry->python_thread = this_thread.python_thread;
  entry->images = (uintptr_t)images_source();
  entry->arenas = arenas_table();
  entry->name = this_thread.name;
  entry->end_ns = entry->cpu_end_ns = 0;
  entry->cpu_start_ns = clock_thread_cpu_ns();
  entry->start_ns = clock_now_ns();
}

void thread_table_begin(void) {
  if (!(spool->features & FEATURE_WAIT)) return;
  uint32_t index = entries_take();
  if (index == SPOOL_THREAD_TABLE) {
    loss_add(LOSS_waits_crowded);
    return;
  }
  fill(entries_at(index));
  this_thread.table_entry = index + 1;
  entries_begin(index);
  fill_python(entries_at(index)); /* another thread may have found the interpreter in the meantime */
  entries_changed();
}

void thread_table_end(void) {
  uint32_t index = this_thread.table_entry;
  if (!index || !recording()) return;
  this_thread.table_entry = 0;
  int64_t cpu_end_ns = clock_thread_cpu_ns();
  entries_end(index - 1, this_thread.id, clock_now_ns(), cpu_end_ns);
}

void thread_table_python_found(void) {
  uint32_t end = atomic_load((_Atomic uint32_t *)&spool->table_end);
  for (uint32_t i = 0; i < end && i < SPOOL_THREAD_TABLE; i++) {
    struct thread_entry *entry = entries_at(i);
    if (atomic_load(entries_state(entry)) == ENTRY_LIVE && entry->process == spool_process()) fill_python(entry);
  }
  entries_changed();
}

static bool has_ended(const void *entry) {
  return atomic_load(entries_state((struct thread_entry *)entry)) != ENTRY_LIVE;
}

void thread_table_write_names(void) {
  uint32_t end = atomic_load((_Atomic uint32_t *)&spool->table_end);
  if (!python_layout || safe_read_refused()) return;
  for (uint32_t i = 0; i < end && i < SPOOL_THREAD_TABLE; i++) {
    struct thread_entry entry = *entries_at(i);
    if (entry.state != ENTRY_LIVE || entry.process != spool_process()) continue;
    thread_name_update(python_layout, entry.thread, entry.python_thread, entry.pthread, false, &entry.name, NULL,
                       has_ended, entries_at(i));
  }
}
