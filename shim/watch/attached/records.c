/* Writes the records of attached processes, each into a chunk of its process. */
#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/spool.h"
#include "watch/attached/attached.h"

#define NOT_READ 255
/* Chunks that may be open at once: each keeps a position of the window. If more processes write, the one that has begun to
 * write longest ago closes its own. */
#define OPEN_CHUNKS 23
_Static_assert(OPEN_CHUNKS < 24, "the window has positions left for the watcher's own chunks");

static struct attached *open_for[OPEN_CHUNKS];
static unsigned turn;

static void close_chunk(struct attached *process) {
  struct spool_writer own, ignored;
  if (!process->writer.chunk) return;
  spool_write_for(&process->writer, &own);
  spool_finish_chunk();
  spool_write_for(&own, &ignored);
  process->writer.chunk = NULL;
}

void attached_close_writer(struct attached *process) {
  close_chunk(process);
  for (unsigned i = 0; i < OPEN_CHUNKS; i++) {
    if (open_for[i] == process) open_for[i] = NULL;
  }
}

static void make_room(struct attached *process) {
  if (process->writer.chunk) return;
  for (unsigned i = 0; i < OPEN_CHUNKS; i++) {
    if (open_for[i] == process) return;
  }
  struct attached **place = &open_for[turn++ % OPEN_CHUNKS];
  if (*place) close_chunk(*place);
  *place = process;
}

/* Writes a record with the bytes of `texts` behind it. */
static void write_record(struct attached *process, const void *record, size_t size, const char *texts, size_t bytes,
                         unsigned kind) {
  unsigned slots = (unsigned)((size + bytes + SPOOL_SLOT_BYTES - 1) / SPOOL_SLOT_BYTES);
  struct spool_writer own;
  make_room(process);
  spool_write_for(&process->writer, &own);
  char *to = spool_claim(slots);
  if (to) {
    memcpy(to + sizeof(uint32_t), (const char *)record + sizeof(uint32_t), size - sizeof(uint32_t));
    memcpy(to + size, texts, bytes);
    spool_publish(to, kind, slots);
  }
  spool_write_for(&own, &process->writer);
}

void attached_write_start(struct attached *process, const char *texts, int64_t now_ns) {
  size_t bytes = (size_t)process->start.exe_bytes + process->start.argv_bytes;
  process->start.t_ns = now_ns;
  write_record(process, &process->start, sizeof process->start, texts, bytes, RECORD_PROCESS_START);
}

void attached_write_end(struct attached *process, uint32_t how, int64_t used_ns, int64_t system_ns, int64_t now_ns) {
  struct record_process_end end = {.thread = process->start.thread, .t_ns = now_ns, .how = how};
  end.system_ns = system_ns < used_ns ? system_ns : used_ns;
  end.user_ns = used_ns - end.system_ns;
  write_record(process, &end, sizeof end, "", 0, RECORD_PROCESS_END);
}

void attached_write_reaped(struct attached *process, pid_t child, int status, int64_t now_ns) {
  struct record_reaped reaped = {.t_ns = now_ns, .pid = child, .status = (uint32_t)status};
  reaped.user_ns = reaped.system_ns = reaped.peak_rss_bytes = -1;
  write_record(process, &reaped, sizeof reaped, "", 0, RECORD_REAPED);
}

void attached_write_thread_start(const struct attached_thread *thread, int64_t now_ns) {
  struct record_thread_start start = {.thread = thread->id,
                                      .t_ns = now_ns,
                                      .cpu_start_ns = thread->cpu_start_ns,
                                      .engine = thread->event ? ENGINE_PERF : ENGINE_POLLED,
                                      .tid = thread->tid};
  write_record(thread->process, &start, sizeof start, "", 0, RECORD_THREAD_START);
}

void attached_write_thread_end(const struct attached_thread *thread, int64_t now_ns) {
  struct record_thread_end end = {.thread = thread->id, .t_ns = now_ns};
  int64_t used_ns = attached_used_ns(thread);
  int64_t system_ns = thread->system_seen_ns - thread->system_start_ns;
  end.cpu_ns = used_ns > 0 ? used_ns : 0;
  end.system_ns = system_ns < end.cpu_ns ? system_ns : end.cpu_ns;
  end.user_ns = end.cpu_ns - end.system_ns;
  memcpy(end.name, thread->name, sizeof end.name);
  write_record(thread->process, &end, sizeof end, "", 0, RECORD_THREAD_END);
}

/* The kernel's time of a thread grows in steps of 10 ms, so what exceeds the tick's is left to the next one. */
void attached_write_tick(struct attached_thread *thread, uint64_t stack, uint32_t flags, int64_t now_ns) {
  int64_t weight_ns = thread->owed_ns;
  int64_t in_kernel_ns = thread->system_seen_ns - thread->system_ns;
  if (in_kernel_ns > weight_ns) in_kernel_ns = weight_ns;
  if (in_kernel_ns < 0) in_kernel_ns = 0;
  struct record_tick tick = {.t_ns = now_ns, .stack = stack};
  tick.user_ns = spool_tick_ns(weight_ns - in_kernel_ns);
  tick.system_ns = spool_tick_ns(in_kernel_ns);
  tick.flags = (uint16_t)flags;
  for (int i = 0; i < TICK_OPCODES; i++) tick.opcodes[i] = NOT_READ;
  thread->owed_ns = 0;
  thread->system_ns += in_kernel_ns;
  attached_write_sample(thread, &tick);
}

void attached_write_sample(struct attached_thread *thread, struct record_tick *tick) {
  tick->thread = thread->id;
  tick->cpu_ns = thread->run_ns - thread->paused_ns;
  thread->stack = tick->stack;
  thread->flags = tick->flags;
  write_record(thread->process, tick, sizeof *tick, "", 0, RECORD_TICK);
}
