/* samples.c and kernel.c: what samples of a thread's own code stand for, where its kernel time is counted by itself. */
#include "formats/spool/spool.h"
#include "shared/loss.h"
#include "tests/check.h"
#include "watch/attached/attached.h"
#include "watch/attached/events.h"
#include "watch/reading/proc.h"

#define MEAN_NS 1000000
#define STEP_NS 10000000 /* of kernel time */

static int64_t own_ns, charged_ns, system_ns, kernel_ns; /* of the thread, in truth; and in ticks */

void ring_read(struct ring *ring, struct ring_batch *out) {
  (void)ring;
  *out = (struct ring_batch){.user = 1};
}
void events_draw(struct thread_event *event) { (void)event; }
void loss_add(enum loss loss) { (void)loss; }
void loss_add_many(enum loss loss, uint64_t lost) { (void)loss, (void)lost; }
int64_t clock_now_ns(void) { return 0; }
int64_t proc_system_ns(pid_t pid, pid_t tid) {
  (void)pid, (void)tid;
  return system_ns / STEP_NS * STEP_NS;
}
void attached_write_sample(struct attached_thread *thread, struct record_tick *tick) {
  (void)thread;
  charged_ns += tick->user_ns;
}
void attached_write_tick(struct attached_thread *thread, uint64_t stack, uint32_t flags, int64_t now_ns) {
  (void)stack, (void)flags, (void)now_ns;
  kernel_ns += thread->owed_ns;
  thread->system_ns += thread->owed_ns;
}

static void read_python(void *context, struct attached_stack *out) { (void)context, out->hash = 7; }
static bool read_running(void *context, uint64_t *stack, uint32_t *flags) {
  (void)context, (void)flags;
  *stack = 7;
  return true;
}

/* Samples come `late_ns` after their periods have ended, and every tenth time is one of the kernel. Returns how much of the
 * thread's own time is in ticks. */
static double share_of(int64_t late_ns, bool of_kernel) {
  static const struct attached_sampler by = {.read_python = read_python};
  struct attached process = {.start = {.pid = 1}};
  struct thread_event event = {.factor = 1, .mean_ns = MEAN_NS, .of_kernel = of_kernel};
  struct attached_thread thread = {.process = &process, .event = &event};
  own_ns = charged_ns = system_ns = kernel_ns = 0;
  for (int i = 0; i < 3000; i++) {
    own_ns += MEAN_NS + late_ns;
    system_ns += i % 10 ? 0 : 3 * MEAN_NS;
    attached_sample(&thread, &by, NULL);
    if (i % 8 || of_kernel) continue;
    thread.run_ns = own_ns + system_ns - own_ns % 4000000; /* the kernel brings it up to date now and then */
    kernel_poll(&thread, 8 * MEAN_NS, read_running, NULL);
  }
  check(of_kernel || system_ns - kernel_ns < STEP_NS + 3 * MEAN_NS);
  return (double)charged_ns / (double)own_ns;
}

int main(void) {
  check(share_of(0, false) > 0.99 && share_of(0, false) < 1.01);
  check(share_of(MEAN_NS / 7, false) > 0.98 && share_of(MEAN_NS / 7, false) < 1.01);
  check(share_of(MEAN_NS / 7, true) < 0.9); /* as is: all of the thread's ticks are scaled by one factor */
  puts("ok");
  return 0;
}
