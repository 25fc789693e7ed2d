/* Accounts of what each stack holds, estimated from the allocation samples, and of the growth that it has been charged
 * with.
 *
 * A footprint sample says that the program has grown, and one stack is charged with it: one that holds bytes it has not
 * been charged with yet. So charges follow what is alive. A line that makes temporaries holds one of them at any time and
 * is charged with that once; everything else is charged to the lines that keep what they allocate. Blocks of at least
 * the threshold are footprint samples of their own and are not in these accounts.
 *
 * Shared by all threads without locks. If two stacks want one place at the same time, one account is lost; then the
 * growth that it explains is charged to others. */
#include "inside/accounts/growth.h"

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/random.h"
#include "shared/spool.h"

#define WAYS 4
#define BUCKETS 512

struct holder {
  _Atomic uint64_t key; /* of the stack; 0 = free */
  _Atomic int64_t holds, charged;
  _Atomic int64_t held_before; /* at the last sample of growth */
  _Atomic uint32_t thread;     /* that allocated last */
};
static struct holder holders[BUCKETS * WAYS];
static _Atomic uint64_t in_use[BUCKETS / 64]; /* a bit for each bucket that has had an account */
static _Atomic uint64_t last_key;             /* of the account that was charged last */
static _Atomic bool begun;                    /* a footprint sample has accounted for what the start has allocated */

/* The stack 0, of threads that run no Python, has a key too. */
static uint64_t key_of(uint64_t stack) { return ~stack; }
static uint64_t stack_of(uint64_t key) { return ~key; }

/* Hashes of stacks are mixed (dictionary_node_hash). */
static struct holder *bucket_of(uint64_t key) { return &holders[(key & (BUCKETS - 1)) * WAYS]; }

/* Returns the place after `last` (null = the first) in a bucket that is in use; null = there is none. */
static struct holder *next_holder(const struct holder *last) {
  size_t at = last ? (size_t)(last - holders) + 1 : 0;
  while (at < (size_t)BUCKETS * WAYS) {
    size_t bucket = at / WAYS;
    uint64_t bits = atomic_load_explicit(&in_use[bucket / 64], memory_order_relaxed) >> bucket % 64;
    if (bits & 1) return &holders[at];
    bucket = bits ? bucket + (size_t)__builtin_ctzll(bits) : (bucket / 64 + 1) * 64;
    at = bucket * WAYS;
  }
  return NULL;
}

static struct holder *find(uint64_t key) {
  if (!key) return NULL;
  struct holder *bucket = bucket_of(key);
  for (struct holder *at = bucket; at < bucket + WAYS; at++) {
    if (atomic_load_explicit(&at->key, memory_order_relaxed) == key) return at;
  }
  return NULL;
}

/* Bytes of an account, 0 if its place is free. What has no stack, like the start of the interpreter, belongs to no
 * line, so only what exceeds the threshold counts. */
static int64_t held(struct holder *holder) {
  int64_t bytes = atomic_load_explicit(&holder->holds, memory_order_relaxed);
  uint64_t key = atomic_load_explicit(&holder->key, memory_order_relaxed);
  if (key == key_of(0)) bytes -= (int64_t)spool->memory_threshold_bytes;
  return bytes > 0 && key ? bytes : 0;
}

static int64_t uncharged(struct holder *holder) {
  int64_t bytes = held(holder) - atomic_load_explicit(&holder->charged, memory_order_relaxed);
  return bytes > 0 ? bytes : 0;
}

/* Bytes that an account holds more than at the last sample of growth. */
static int64_t gained(struct holder *holder) {
  int64_t bytes = held(holder) - atomic_load_explicit(&holder->held_before, memory_order_relaxed);
  return bytes > 0 ? bytes : 0;
}

/* Returns the account of a stack. A new one takes the place of the one in its bucket that holds least. */
static struct holder *account_of(uint64_t key) {
  struct holder *holder = find(key), *bucket = bucket_of(key), *least = bucket;
  if (holder) return holder;
  for (int i = 1; i < WAYS; i++) {
    if (atomic_load(&bucket[i].holds) < atomic_load(&least->holds)) least = &bucket[i];
  }
  atomic_store(&least->key, 0);
  atomic_store(&least->holds, 0);
  atomic_store(&least->charged, 0);
  atomic_store(&least->held_before, 0);
  atomic_store(&least->key, key);
  size_t number = (size_t)(bucket - holders) / WAYS;
  atomic_fetch_or(&in_use[number / 64], (uint64_t)1 << number % 64);
  return least;
}

void growth_allocated(uint64_t stack, uint32_t thread, int64_t bytes) {
  struct holder *holder = account_of(key_of(stack));
  atomic_fetch_add(&holder->holds, bytes);
  atomic_store_explicit(&holder->thread, thread, memory_order_relaxed);
}

void growth_freed(uint64_t stack, int64_t bytes) {
  struct holder *holder = find(key_of(stack));
  if (holder) atomic_fetch_sub(&holder->holds, bytes);
}

/* Draws an account with those weights, and stores their sum. */
static struct holder *draw(int64_t (*weight_of)(struct holder *), uint64_t *random, int64_t *sum) {
  struct holder *drawn = NULL;
  *sum = 0;
  for (struct holder *one = next_holder(NULL); one; one = next_holder(one)) {
    int64_t weight = weight_of(one);
    *sum += weight;
    if (weight && random_next(random) % (uint64_t)*sum < (uint64_t)weight) drawn = one;
  }
  return drawn;
}

/* Charges all accounts with their parts of the bytes, by those weights, which add up to `sum`. */
static void explain(int64_t (*weight_of)(struct holder *), int64_t bytes, int64_t sum) {
  for (struct holder *one = sum ? next_holder(NULL) : NULL; one; one = next_holder(one)) {
    int64_t weight = weight_of(one);
    if (weight) atomic_fetch_add(&one->charged, (int64_t)((double)bytes * (double)weight / (double)sum));
  }
}

static struct holder *most_uncharged(void) {
  struct holder *most = holders;
  for (struct holder *one = next_holder(NULL); one; one = next_holder(one)) {
    if (uncharged(one) > uncharged(most)) most = one;
  }
  return most;
}

static void note_held(void) {
  for (struct holder *one = next_holder(NULL); one; one = next_holder(one)) {
    atomic_store(&one->held_before, held(one));
  }
}

/* A stack that holds a good part of the growth is charged with all of it. Where many hold a little each, one of them is
 * drawn, and each account counts as charged with its part. What stacks hold is an estimate, so all together may hold
 * fewer uncharged bytes than the footprint has grown by; then the rest belongs to those that hold more than before.
 * If none does, no sample fell into the growth: the stack that was charged last is charged again. */
bool growth_charge(int64_t bytes, uint64_t *random, uint32_t *thread, uint64_t *stack) {
  atomic_store(&begun, true);
  struct holder *charged = most_uncharged();
  if (uncharged(charged) >= bytes / 8) {
    atomic_fetch_add(&charged->charged, bytes);
  } else {
    int64_t fresh, all;
    struct holder *newer = draw(uncharged, random, &fresh), *grown = draw(gained, random, &all);
    int64_t explained = fresh < bytes ? fresh : bytes;
    charged = fresh < bytes / 2 && grown ? grown : newer;
    if (!charged) charged = find(atomic_load(&last_key));
    if (!charged) return false;
    explain(uncharged, explained, fresh);
    explain(gained, bytes - explained, all);
  }
  note_held();
  *thread = atomic_load(&charged->thread);
  uint64_t key = atomic_load(&charged->key);
  atomic_store(&last_key, key);
  *stack = stack_of(key);
  return key != 0;
}

void growth_begin(void) {
  if (atomic_exchange(&begun, true)) return;
  for (struct holder *one = next_holder(NULL); one; one = next_holder(one)) { atomic_store(&one->charged, held(one)); }
  note_held();
}

void growth_shrank(void) {
  for (struct holder *one = next_holder(NULL); one; one = next_holder(one)) {
    int64_t holds = held(one);
    if (atomic_load_explicit(&one->charged, memory_order_relaxed) > holds) atomic_store(&one->charged, holds);
  }
}

void growth_postfork_child(void) {
  for (struct holder *one = next_holder(NULL); one; one = next_holder(one)) atomic_store(&one->key, 0);
  for (int i = 0; i < BUCKETS / 64; i++) atomic_store(&in_use[i], 0);
  atomic_store(&last_key, 0);
}
