/* quick_clock.c: beside the clock itself, and with one that stands still, goes back, or takes long. */
#include "inside/core/quick_clock.h"

#include <time.h>

#include "shared/clock.h"
#include "tests/check.h"

static enum { REAL, SET, SLOW } kind;
static int64_t set_ns, reads;

static int64_t real_ns(void) {
  struct timespec now;
  check(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_now_ns(void) {
  reads++;
  int64_t until_ns = kind == SLOW ? real_ns() + 5000 : 0;
  while (real_ns() < until_ns) {}
  return kind == SET ? set_ns : real_ns();
}

static void begin(void) {
  quick_clock = (struct quick_clock){0};
  reads = 0;
}

/* Returns how many answers there were in 60 ms. Each lies between two readings of the clock, within a microsecond. */
static int64_t compare(void) {
  int64_t count = 0, wrong = 0, end_ns = real_ns() + 60000000;
  for (int64_t before_ns = real_ns(), after_ns; before_ns < end_ns; before_ns = after_ns, count++) {
    int64_t now_ns = quick_clock_ns();
    after_ns = real_ns();
    wrong += now_ns < before_ns - 1000 || now_ns > after_ns + 1000;
  }
  check(wrong <= count / 1000); /* a thread that is interrupted between its two counts is told so by neither */
  return count;
}

static void test_the_answers_are_those_of_the_clock(void) {
  kind = REAL;
  begin();
  bool is_quick = !arch_ticks();
  /* On a busy machine, two measurements of the rate may not agree for a while. */
  for (int round = 0; round < 50 && (round == 0 || !is_quick); round++) {
    reads = 0;
    int64_t count = compare();
    is_quick = is_quick || reads < count - count / 10;
  }
  check(is_quick);
}

static void test_a_clock_that_takes_long_is_read_each_time(void) {
  kind = SLOW;
  begin();
  for (int i = 0; i < 8000; i++) quick_clock_ns();
  check(reads > 7900);
}

static void test_a_clock_that_stands_still_or_goes_back_gives_no_earlier_answer(void) {
  kind = SET;
  begin();
  set_ns = 5000;
  check(quick_clock_ns() == 5000 && quick_clock_ns() == 5000);
  set_ns = 4000;
  check(quick_clock_ns() == 5000);
  set_ns = 6000;
  check(quick_clock_ns() == 6000);
}

/* The clock gains a hundred times as much in each second measurement as in the others, while the counter gains the same: an
 * interruption of the thread that makes two agree by chance would have to be of ten milliseconds, to a microsecond. */
static void test_a_rate_that_changes_is_not_used(void) {
  kind = SET;
  begin();
  for (int i = 1; i < 20; i++) {
    set_ns += i % 2 ? 19000000 : 1900000000;
    check(quick_clock_ns() == set_ns && quick_clock.valid == 0);
    for (int64_t until_ns = real_ns() + 100000; real_ns() < until_ns;) {}
  }
}

int main(void) {
  test_the_answers_are_those_of_the_clock();
  test_a_clock_that_takes_long_is_read_each_time();
  test_a_clock_that_stands_still_or_goes_back_gives_no_earlier_answer();
  test_a_rate_that_changes_is_not_used();
  return 0;
}
