/* CPU ticks by perf events: when the kernel has sampled a thread, the watcher reads at once the Python stack that the thread has
 * then, and derives from the registers and the stack of the sample what a recorded process derives from those that its signal
 * has interrupted. Each sample stands for the mean time between two. */
#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/evidence/evidence.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "watch/attached/attached.h"
#include "watch/attached/events.h"
#include "watch/attached/ring.h"
#include "watch/reading/proc.h"

static void write_sample(struct attached_thread *thread, const struct ring_batch *batch, int64_t user_ns,
                         int64_t system_ns, const struct attached_stack *stack, const struct native_evidence *native,
                         bool is_known) {
  struct record_tick tick = {.t_ns = batch->newest.t_ns, .stack = stack->hash, .native = native->chain};
  tick.pc = is_known ? batch->newest.value[DWARF_PC] : 0;
  tick.user_ns = spool_tick_ns(user_ns);
  tick.system_ns = spool_tick_ns(system_ns);
  tick.flags = (uint16_t)(stack->flags | (is_known ? native->flags : PC_UNREAD << TICK_PC_SHIFT));
  if (!batch->user) tick.flags |= TICK_SYSTEM;
  memcpy(tick.opcodes, stack->opcodes, sizeof tick.opcodes);
  attached_write_sample(thread, &tick);
}

void attached_sample(struct attached_thread *thread, const struct attached_sampler *by, void *context) {
  struct attached_stack stack = {.hash = 0};
  struct native_evidence native = {0};
  struct ring_batch batch;
  struct thread_event *event = thread->event;
  int64_t mean_ns = event->mean_ns; /* of these samples */
  by->read_python(context, &stack);
  ring_read(&event->ring, &batch);
  if (batch.lost) loss_add_many(LOSS_attached_lost, batch.lost);
  if (!batch.user && !batch.kernel) return;
  events_draw(event); /* the thread runs on, and from here on its time counts */
  bool is_known = batch.newest.has_registers && by->read_native(context, &batch.newest, &native);
  if (is_known) by->go_back(context, &batch.newest, &native, &stack);
  int64_t user_ns = (int64_t)((double)(batch.user * mean_ns) * event->factor);
  event->user_ns += user_ns;
  if (!event->of_kernel) kernel_explain(event, &stack, user_ns);
  if (stack.flags & TICK_TORN) loss_add(LOSS_torn_stack);
  write_sample(thread, &batch, user_ns, batch.kernel * mean_ns, &stack, &native, is_known);
}
