/* The budget of the allocation sampler.
 *
 * A program that makes many temporaries would get so coarse an interval that a leak beside them has no sample. So the
 * samples that are due are thinned by site: a site is a stack and a size class (a power of two), and each has an
 * interval of its own, which doubles when the site has more than its share of the samples of half a second, and halves
 * when it has less than half. The share itself halves when all sites together exceed the budget, and doubles when they
 * use less than half of it: rare sites keep every sample, and busy ones share the rest (max-min fairness). There may be
 * so many sites that the least share of each is too much. Then a floor, an interval that no site is finer than, doubles
 * when the budget is used up, and halves after a window in which it was not.
 *
 * The stack is walked only for samples that pass the same test for the line that runs, with a larger share. Decisions
 * depend on earlier samples only, so estimates stay unbiased. The tables are shared by all threads without locks. A
 * race can only make a share a little larger or smaller. */
#include "inside/accounts/budget.h"

#include "shared/base.h"
#include "shared/random.h"
#include "shared/stacks/hash.h"

#define FIRST_SHARE 16 /* samples of a site in a window */
#define MOST_SHARE BUDGET_SAMPLES
#define LEAST_SHARE 2
#define WALKS 4 /* a line may be walked so many times as often as a site is recorded */
#define WAYS 4
#define BUCKETS 512
#define COARSEST ((int64_t)1 << 50)
#define LEAST_FLOOR ((int64_t)256 << 10)

struct site {
  _Atomic uint64_t key; /* 0 = free */
  _Atomic int64_t interval;
  _Atomic int64_t window;
  _Atomic int64_t count; /* in that window */
};
static struct site sites[BUCKETS][WAYS];
static _Atomic int64_t share = FIRST_SHARE;
static _Atomic int64_t floor_bytes; /* 0 = none */
static _Atomic int64_t budget_window;
static _Atomic int64_t recorded; /* in budget_window, by all sites */

/* Returns h(x) = 1 - exp(-x), by h(2x) = h(x) (2 - h(x)), beginning where the series is exact to 1e-15. */
static double chance_of(double x) {
  int halvings = 0;
  if (x > 40) return 1;
  for (; x > 0.004; x /= 2) halvings++;
  double chance = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5))));
  for (; halvings; halvings--) chance *= 2 - chance;
  return chance;
}

static uint64_t key_of(enum budget_level level, uint64_t site, uint64_t bytes) {
  uint64_t class = 64 - (uint64_t)__builtin_clzll(bytes | 1);
  return hash_mixed(site ^ (class << 1 | (uint64_t)level) * 0x9e3779b97f4a7c15u) | 1;
}

/* Returns the site, taking the place of one that has been quiet for the longest time if it is new. */
static struct site *site_at(uint64_t key, int64_t window) {
  struct site *bucket = sites[key >> 1 & (BUCKETS - 1)], *oldest = bucket;
  for (int i = 0; i < WAYS; i++) {
    if (atomic_load_explicit(&bucket[i].key, memory_order_relaxed) == key) return &bucket[i];
    if (atomic_load_explicit(&bucket[i].window, memory_order_relaxed) < atomic_load(&oldest->window))
      oldest = &bucket[i];
  }
  atomic_store(&oldest->key, key);
  atomic_store(&oldest->interval, 0);
  atomic_store(&oldest->count, 0);
  atomic_store(&oldest->window, window);
  return oldest;
}

/* Begins a new window of a site. The interval becomes finer for each window in which it yielded less than half of the
 * share. */
static void begin_window(struct site *site, int64_t window, int64_t most) {
  int64_t before = atomic_load(&site->window), quiet = window - before - 1;
  if (before == window || !atomic_compare_exchange_strong(&site->window, &before, window)) return;
  int64_t halvings = (quiet > 0 ? quiet : 0) + (atomic_load(&site->count) < most / 2);
  atomic_store(&site->count, 0);
  if (halvings) atomic_store(&site->interval, halvings > 50 ? 0 : atomic_load(&site->interval) >> halvings);
}

/* Lowers the floor, or raises the share if there is no floor. `count`: samples that were recorded in a window. */
static void loosen(int64_t count) {
  int64_t now = atomic_load(&share), low = atomic_load(&floor_bytes);
  if (low && count < BUDGET_SAMPLES) {
    atomic_store(&floor_bytes, low > LEAST_FLOOR ? low / 2 : 0);
  } else if (!low && count < BUDGET_SAMPLES / 2 && now < MOST_SHARE) {
    atomic_store(&share, now * 2);
  }
}

/* `times`: how often the budget has been used up in this window. A program that has just started has many new sites, so
 * the second time, the share becomes as small as it may be. */
static void tighten(int64_t times) {
  int64_t now = atomic_load(&share), low = atomic_load(&floor_bytes);
  if (now > LEAST_SHARE) {
    atomic_store(&share, times > 1 ? LEAST_SHARE : now / 2);
  } else if (low < COARSEST) {
    atomic_store(&floor_bytes, 2 * (low ? low : LEAST_FLOOR));
  }
}

static void follow_budget(int64_t window) {
  int64_t before = atomic_load(&budget_window);
  if (before == window || !atomic_compare_exchange_strong(&budget_window, &before, window)) return;
  int64_t count = atomic_exchange(&recorded, 0);
  loosen(count);
  for (int64_t quiet = window - before - 1; quiet > 0 && budget_floor(); quiet--) loosen(0);
}

static void count_recorded(void) {
  int64_t count = atomic_fetch_add(&recorded, 1) + 1;
  if (count % BUDGET_SAMPLES == 0) tighten(count / BUDGET_SAMPLES);
}

int64_t budget_floor(void) { return atomic_load_explicit(&floor_bytes, memory_order_relaxed); }

int64_t budget_admit(enum budget_level level, uint64_t place, uint64_t bytes, int64_t interval, int64_t now_ns,
                     uint64_t *random) {
  int64_t window = now_ns / BUDGET_WINDOW_NS;
  follow_budget(window); /* at both levels: a floor may leave nothing that gets to the second */
  int64_t most = atomic_load_explicit(&share, memory_order_relaxed) * (level == BUDGET_OF_LINE ? WALKS : 1);
  struct site *site = site_at(key_of(level, place, bytes), window);
  begin_window(site, window, most);
  int64_t own = atomic_load_explicit(&site->interval, memory_order_relaxed), low = budget_floor();
  if (own < low) own = low;
  if (own > interval) {
    double chance = chance_of((double)bytes / (double)own) / chance_of((double)bytes / (double)interval);
    if ((double)(random_next(random) >> 11) * 0x1p-53 >= chance) return 0;
    interval = own;
  }
  int64_t count = atomic_fetch_add(&site->count, 1) + 1;
  if (count % most == 0 && interval < COARSEST) atomic_store(&site->interval, interval * 2);
  if (level == BUDGET_OF_STACK) count_recorded();
  return interval;
}

void budget_postfork_child(void) {
  for (int i = 0; i < BUCKETS; i++) {
    for (int k = 0; k < WAYS; k++) {
      if (atomic_load(&sites[i][k].key)) atomic_store(&sites[i][k].key, 0);
    }
  }
  atomic_store(&share, FIRST_SHARE);
  atomic_store(&floor_bytes, 0);
}
