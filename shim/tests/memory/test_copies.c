/* copies.c: the recorded volume equals the copied bytes, and the copies themselves are left to libc. */
#include <pthread.h>
#include <stdlib.h>

#include "formats/spool/spool.h"
#include "inside/core/fork.h"
#include "inside/core/next.h"
#include "inside/core/thread_state.h"
#include "inside/copies/copies.h"
#include "inside/native/diverted.h"
#include "inside/stacks/frames.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/spool.h"
#include "tests/check.h"

static struct spool_header header = {.copy_threshold_bytes = 1000003, .features = FEATURE_COPY};
struct spool_header *spool;
struct next_functions next;
THREAD_LOCAL struct thread_state this_thread = {.id = 1};
static struct record_copy record_space;
static int64_t volume, samples, last_bytes;
static bool may_resolve;

void loss_add(enum loss loss) { header.losses[loss]++; }
void *spool_claim(unsigned slots) { return slots == 1 ? &record_space : NULL; }
void spool_publish(void *record, unsigned kind, unsigned slots) {
  check(record == &record_space && kind == RECORD_COPY && slots == 1);
  volume += (int64_t)record_space.bytes;
  last_bytes = (int64_t)record_space.bytes;
  samples++;
}
void fork_check(void) {}
void thread_ensure(void) {}
void diverted_begin(const struct diversion *diversions, int count) { (void)diversions, (void)count; }
uint64_t frames_current(void) { return 1; }

static void *plain(void *to, const void *from, size_t size) {
  for (size_t i = 0; i < size; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}
static void *checked(void *to, const void *from, size_t size, size_t room) {
  check(size <= room);
  return plain(to, from, size);
}
void next_resolve(void) {
  if (!may_resolve) return;
  next.memcpy = next.memmove = plain;
  next.__memcpy_chk = next.__memmove_chk = checked;
  next.resolved = true;
}

#undef memcpy
void *memcpy(void *, const void *, size_t);
void *__memcpy_chk(void *, const void *, size_t, size_t);

static char from[3000000], to[3000000];

static void test_before_libc_is_known(void) {
  char text[] = "0123456789";
  check(memcpy(to, "abc", 4) == to && to[0] == 'a' && to[2] == 'c');
  memmove(text + 2, text, 8); /* overlapping, backwards */
  check(text[2] == '0' && text[9] == '7');
}

static void test_volume_is_exact(void) {
  int64_t truth = 0;
  for (size_t i = 0; i < 20000; i++) {
    size_t size = (i * 7919) % 5000;
    if (i % 4 == 0) memcpy(to, from, size);
    if (i % 4 == 1) memmove(to, from, size);
    if (i % 4 == 2) __memcpy_chk(to, from, size, sizeof to);
    if (i % 4 == 3) continue;
    truth += (int64_t)size;
  }
  copies_process_end();
  check(volume == truth && samples > truth / 1500005 && samples <= truth / 500001 + 1);
}

static void test_a_large_copy_is_a_sample_of_its_own(void) {
  int64_t before = samples;
  memcpy(to, from, 100);
  memcpy(to, from, 2999999);
  check(samples == before + 1 && last_bytes == 2999999);
  copies_process_end();
  check(samples == before + 2 && last_bytes == 100);
}

static void *copy_a_little(void *unused) {
  (void)unused;
  memcpy(to, from, 777);
  copies_thread_end();
  return NULL;
}

static void test_bytes_of_ended_threads_are_carried(void) {
  pthread_t thread;
  volume = 0;
  for (int i = 0; i < 5; i++) {
    check(!pthread_create(&thread, NULL, copy_a_little, NULL));
    pthread_join(thread, NULL);
  }
  copies_process_end();
  check(volume == 5 * 777);
}

int main(void) {
  test_before_libc_is_known();
  spool = &header;
  may_resolve = true;
  next_resolve();
  copies_init();
  volume = samples = 0;
  test_volume_is_exact();
  test_a_large_copy_is_a_sample_of_its_own();
  test_bytes_of_ended_threads_are_carried();
  copies_postfork_child();
  puts("ok");
  return 0;
}
