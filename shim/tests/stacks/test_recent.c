/* recent.c and codes.c on invented frames: which stacks are named without reading code objects, and when a code
 * object is no longer known. */
#include <pthread.h>

#include "formats/spool/spool.h"
#include "inside/core/thread_state.h"
#include "inside/stacks/codes.h"
#include "inside/stacks/recent.h"
#include "shared/base.h"
#include "shared/loss.h"
#include "shared/saferead.h"
#include "shared/spool.h"
#include "shared/stacks/dictionary.h"
#include "shared/stacks/hash.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/scratch.h"
#include "tests/check.h"

/* ---- stand-ins for the other files of the shim ---- */

static struct spool_header header;
struct spool_header *spool = &header;
static _Atomic int safe_reads, facts_read, node_is_missing;

bool safe_read(void *to, const void *from, size_t size) {
  safe_reads++;
  memcpy(to, from, size);
  return true;
}
static int losses;
void loss_add(uint32_t index) { losses += index == LOSS_deep_stack; }
bool safe_read_many(void *to, const uintptr_t *from, int count, size_t size, struct iovec *work) {
  return check(to && from && count && size && work && false), false; /* code objects are not read here */
}
bool safe_read_all(void *to, const struct iovec *from, int count) { return check(to && from && count && false), false; }
/* The name of a code object: changes when another one is created at its address. */
static uint64_t name_of_code = 1;
struct code_facts dictionary_code_remembered(const struct stack_target *target, uintptr_t code) {
  facts_read++;
  return target ? (struct code_facts){hash_pair(code, name_of_code), 100, 2} : (struct code_facts){0, 0, 0};
}
struct code_facts dictionary_code(const struct stack_target *target, uintptr_t code, const char *object,
                                  const char *identity) {
  return object && identity ? dictionary_code_remembered(target, code) : (struct code_facts){0, 0, 0};
}
void dictionary_identity(const struct stack_target *target, const char *object, struct iovec *pieces) {
  check(target && object && pieces && false);
}
uint64_t dictionary_node_hash(uint64_t parent, uint64_t code, int32_t instruction) {
  return hash_not_zero(hash_pair(hash_pair(parent, code), (uint64_t)(uint32_t)instruction + 1));
}
bool dictionary_node_known(uint64_t hash) { return hash && !node_is_missing; }
static struct record_node written[8];
static int nodes_written, nodes_truncated;
static struct record_node labelled;
uint64_t dictionary_labelled(const struct record_node *innermost, uint64_t label) {
  labelled = *innermost;
  return innermost->hash ^ label;
}
bool dictionary_node_write(const struct record_node *node) {
  if (node_is_missing > 1) return false;
  written[nodes_written++ % 8] = *node;
  if (node->truncated) nodes_truncated += !node->parent;
  return true;
}

/* ---- an invented interpreter ---- */

static const struct python_layout layout = {.version = 0x30b,
                                            .tstate_chunk = 0,
                                            .frame_bytes = 32,
                                            .frame_code = 0,
                                            .frame_previous = 8,
                                            .frame_instruction = 16,
                                            .frame_owner = 24,
                                            .code_bytes = 32,
                                            .code_bytecode = 64,
                                            .generator_frame = 48,
                                            .reference_mask = ~(uintptr_t)0};
static const struct stack_target target = {.layout = &layout, .thread = 1};
struct frame {
  uintptr_t code, previous, instruction;
  signed char owner;
};
/* A chunk of the frame stack: its header, then frames. */
struct chunk_of_frames {
  uintptr_t previous, bytes;
  struct frame frame[604]; /* the last ones are too near to its end */
};
static struct chunk_of_frames chunk = {.bytes = sizeof(struct chunk_of_frames)};
static uintptr_t state[1] = {(uintptr_t)&chunk};

static uintptr_t code(int number) { return 0x100000 + (uintptr_t)number * 0x1000; }

/* Lays out the frames of a chunk, the outermost first: code number and instruction of each. Returns the innermost. */
static uintptr_t lay_out(const int frames[][2], int count) {
  for (int i = 0; i < count; i++) {
    uintptr_t first = code(frames[i][0]) + (uintptr_t)layout.code_bytecode;
    chunk.frame[i] = (struct frame){code(frames[i][0]), i ? (uintptr_t)&chunk.frame[i - 1] : 0,
                                    first + 2 * (uintptr_t)frames[i][1], 0};
  }
  return (uintptr_t)&chunk.frame[count - 1];
}

/* The hash that the stack must have. */
static uint64_t hash_of(const int frames[][2], int count) {
  uint64_t hash = 0;
  for (int i = 0; i < count; i++) {
    hash = dictionary_node_hash(hash, hash_pair(code(frames[i][0]), name_of_code), frames[i][1]);
  }
  return hash;
}

static uint64_t named(uintptr_t innermost) { return recent_stack(&target, (const char *)state, innermost); }

/* ---- the hooks ---- */

static _Atomic int watched;
static uintptr_t living_block;
static void begin_watch(uintptr_t address) { watched += address != 0; }
static void end_watch(uintptr_t address) { watched -= address != 0; }
static uint64_t block_at(uintptr_t address, size_t bytes) { return address == living_block && bytes <= 128; }
static const struct codes_watch watch = {begin_watch, end_watch, block_at};

static void begin(void) {
  codes_follow(NULL);
  check(watched == 0);
  codes_follow(&watch);
  codes_addresses_seen(true);
  safe_reads = facts_read = 0;
}

static void verify(int first, int end) {
  for (int i = first; i < end; i++) codes_verified(code(i));
}

/* ---- tests ---- */

static void test_a_stack_of_known_code_is_named_without_a_read(void) {
  static const int frames[][2] = {{0, 5}, {1, 7}, {2, 9}};
  begin();
  uintptr_t innermost = lay_out(frames, 3);
  check(named(innermost) == 0);
  verify(0, 2);
  check(named(innermost) == 0);
  verify(2, 3);
  check(watched == 3);
  check(named(innermost) == hash_of(frames, 3));
  facts_read = 0;
  check(named(innermost) == hash_of(frames, 3));
  check(facts_read == 0 && safe_reads == 0);
}

static void test_missing_nodes_are_written_parents_first(void) {
  static const int frames[][2] = {{0, 5}, {1, 7}, {2, 1}}; /* the innermost is still being set up */
  begin();
  verify(0, 3);
  node_is_missing = 1; /* or others have taken their places in the cache */
  nodes_written = 0;
  check(named(lay_out(frames, 3)) == hash_of(frames, 2) && nodes_written == 2);
  check(written[0].hash == hash_of(frames, 1) && written[0].parent == 0 && written[0].instruction == 5);
  check(written[1].hash == hash_of(frames, 2) && written[1].parent == written[0].hash && written[1].instruction == 7);
  check(written[1].code == hash_pair(code(1), name_of_code) && written[1].thread == 1);
  check(named(lay_out(frames, 3)) == hash_of(frames, 2) && nodes_written == 4);
  check(written[3].code == written[1].code);
  node_is_missing = 2; /* the spool is full */
  check(named(lay_out(frames, 3)) == 0);
  node_is_missing = 0;
}

static void test_only_what_changed_is_named_again(void) {
  static const int before[][2] = {{0, 5}, {1, 7}, {2, 9}}, next[][2] = {{0, 5}, {1, 7}, {2, 11}, {3, 4}};
  static const int other_call[][2] = {{0, 6}, {1, 7}, {2, 11}, {3, 4}};
  begin();
  verify(0, 4);
  check(named(lay_out(before, 3)) == hash_of(before, 3));
  facts_read = 0;
  check(named(lay_out(next, 4)) == hash_of(next, 4));
  check(facts_read == 1); /* the instruction alone is another one in the third */
  /* The same frames at the same addresses, called from another line of the outermost. */
  check(named(lay_out(other_call, 4)) == hash_of(other_call, 4));
  check(hash_of(other_call, 4) != hash_of(next, 4));
  check(named(lay_out(before, 3)) == hash_of(before, 3));
}

/* Random calls, returns and steps, with frames in a chunk and of generators elsewhere. */
static void test_random_changes_give_the_names_of_whole_stacks(void) {
  static struct {
    char header[16 + 48];
    struct frame frame;
  } generators[4];
  static int frames[60][2];
  uint64_t random = 1;
  int depth = 1, renamed = 0, wrong = 0;
  begin();
  verify(0, 16);
  living_block = 0;
  for (int i = 0; i < 30000; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    unsigned draw = (unsigned)(random >> 33), at = depth > 1 ? draw / 8 % (unsigned)depth : 0;
    if (draw % 8 < 2 && depth < 60) frames[depth++][0] = (int)(draw / 8 % 16);
    if (draw % 8 == 2 && depth > 1) depth -= 1 + (int)(draw / 8 % (unsigned)(depth - 1));
    if (draw % 8 == 3) at = 0; /* the outermost goes on */
    if (at < (unsigned)depth) frames[at][1] = 3 + (int)(draw >> 20) % 90;
    frames[depth - 1][1] = 3 + (int)(draw >> 12) % 90;
    uintptr_t innermost = lay_out(frames, depth);
    if (draw % 5 == 0 && depth > 2) { /* the innermost but one is a generator's */
      struct frame *moved = &generators[draw / 64 % 4].frame;
      *moved = chunk.frame[depth - 2];
      chunk.frame[depth - 1].previous = (uintptr_t)moved;
    }
    uint64_t found = named(innermost);
    renamed += found != 0;
    wrong += found != 0 && found != hash_of(frames, depth);
  }
  check(wrong == 0 && renamed > 29900);
}

/* A stack has its innermost 512 frames, and the outermost of them says so. */
static uint64_t hash_of_kept(const int frames[][2], int count) {
  return count > MAX_FRAMES ? hash_of(frames + count - MAX_FRAMES, MAX_FRAMES) : hash_of(frames, count);
}

static void test_deeper_stacks_are_named_by_their_innermost_frames(void) {
  static int frames[600][2];
  for (int i = 0; i < 600; i++) frames[i][0] = i % 7, frames[i][1] = 3 + i % 11;
  begin();
  verify(0, 7);
  losses = 0;
  check(named(lay_out(frames, 512)) == hash_of_kept(frames, 512) && losses == 0);
  check(named(lay_out(frames, 513)) == hash_of_kept(frames, 513) && losses == 1);
  frames[512][1] = 40; /* goes on */
  facts_read = 0;
  check(named(lay_out(frames, 513)) == hash_of_kept(frames, 513) && facts_read == 0);
  frames[511][1] = 41; /* returned, and called again */
  check(named(lay_out(frames, 513)) == hash_of_kept(frames, 513));
  check(named(lay_out(frames, 600)) == hash_of_kept(frames, 600));
  node_is_missing = 1;
  nodes_written = 0;
  check(named(lay_out(frames, 520)) == hash_of_kept(frames, 520) && nodes_written == MAX_FRAMES);
  node_is_missing = 0;
  check(written[7].hash == hash_of_kept(frames, 520) && !written[7].truncated);
  check(named(lay_out(frames, 513)) == hash_of_kept(frames, 513));
  chunk.frame[1].previous = 0; /* the same frames, and no more */
  check(named((uintptr_t)&chunk.frame[512]) == hash_of(frames + 1, 512));
  losses = 0;
  check(named(lay_out(frames, 512)) == hash_of_kept(frames, 512));
  check(named(lay_out(frames, 3)) == hash_of_kept(frames, 3) && losses == 0);
  codes_changed(code(5));
  check(named(lay_out(frames, 600)) == 0 && safe_reads == 0);
}

static void test_random_depths_give_the_names_of_kept_frames(void) {
  static int frames[600][2];
  uint64_t random = 7;
  int depth = 500, renamed = 0, wrong = 0;
  begin();
  verify(0, 16);
  living_block = 0;
  for (int i = 0; i < 600; i++) frames[i][0] = i * i % 16, frames[i][1] = 3 + i % 90;
  for (int i = 0; i < 6000; i++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    unsigned draw = (unsigned)(random >> 33);
    if (draw % 8 < 3 && depth < 600) frames[depth++][0] = (int)(draw / 8 % 16);
    if (draw % 8 > 4) depth -= 1 + (int)(draw / 8 % 4);
    if (depth < 480) depth = 530;
    frames[depth - 1][1] = 3 + (int)(draw >> 12) % 90;
    if (draw % 64 == 3) frames[draw / 64 % (unsigned)depth][1] = 3 + (int)(draw >> 20) % 90;
    uint64_t found = named(lay_out(frames, depth));
    renamed += found != 0;
    wrong += found != 0 && found != hash_of_kept(frames, depth);
  }
  check(wrong == 0 && renamed > 5990);
}

static void test_the_outermost_frame_of_a_deeper_stack_says_so(void) {
  static int frames[600][2];
  int marked = 0;
  for (int i = 0; i < 600; i++) frames[i][0] = i % 7, frames[i][1] = 3;
  begin();
  verify(0, 7);
  check(named(lay_out(frames, 600)) == hash_of_kept(frames, 600));
  node_is_missing = 1;
  nodes_truncated = 0;
  check(named(lay_out(frames, 550)) == hash_of_kept(frames, 550));
  marked = nodes_truncated;
  check(named(lay_out(frames, 3)) == hash_of_kept(frames, 3));
  node_is_missing = 0;
  check(marked == 1 && nodes_truncated == 1);
}

static void test_a_frame_that_is_set_up_belongs_to_its_caller(void) {
  static const int begins[][2] = {{0, 5}, {1, 1}}, caller[][2] = {{0, 5}};
  begin();
  verify(0, 2);
  check(named(lay_out(begins, 2)) == hash_of(caller, 1));
  check(named(lay_out(begins, 2)) == hash_of(caller, 1));
}

/* With a label, the node is another one: that of the innermost frame, or of its caller while it is being set up. */
static void test_a_label_makes_another_node_of_the_innermost_frame(void) {
  static const int frames[][2] = {{0, 5}, {1, 7}, {2, 1}};
  struct stack_target with_label = target;
  with_label.label = 1234;
  begin();
  verify(0, 3);
  uintptr_t innermost = lay_out(frames, 3);
  check(named(innermost) == hash_of(frames, 2));
  check(recent_stack(&with_label, (const char *)state, innermost) == (hash_of(frames, 2) ^ 1234));
  check(labelled.hash == hash_of(frames, 2) && labelled.parent == hash_of(frames, 1) && labelled.instruction == 7);
  check(labelled.code == hash_pair(code(1), name_of_code));
  check(named(innermost) == hash_of(frames, 2));
}

static void test_freed_and_allocated_addresses_are_no_longer_known(void) {
  static const int frames[][2] = {{0, 5}, {1, 7}};
  begin();
  uintptr_t innermost = lay_out(frames, 2);
  verify(0, 2);
  uint64_t before = named(innermost);
  check(before == hash_of(frames, 2));
  codes_changed(code(1) + 16);               /* another block */
  codes_changed(code(1) + CODES_MARKS * 16); /* with the same mark */
  check(named(innermost) == before);
  codes_changed(code(1));
  check(named(innermost) == 0 && watched == 1);
  name_of_code = 2; /* another code object at the same address */
  codes_verified(code(1));
  check(named(innermost) == hash_of(frames, 2) && hash_of(frames, 2) != before);
  name_of_code = 1;
}

static void test_broken_chains_are_refused(void) {
  static const int frames[][2] = {{0, 5}, {1, 7}, {2, 9}};
  begin();
  verify(0, 3);
  uintptr_t innermost = lay_out(frames, 3);
  check(named(innermost + 1) == 0 && named(8) == 0 && named(0) == 0);
  chunk.frame[1].instruction = code(1) - 2;
  check(named(innermost) == 0);
  chunk.frame[1].instruction = code(1) + 64 + 2 * 100; /* behind its bytecode */
  check(named(innermost) == 0);
  lay_out(frames, 3);
  chunk.frame[0].previous = innermost; /* a circle */
  check(named(innermost) == 0);
  chunk.frame[1].code = 0x123456789;
  check(named(innermost) == 0);
}

static void test_frames_elsewhere_are_read_plainly_only_if_they_are_mapped(void) {
  static const int frames[][2] = {{0, 5}, {1, 7}};
  struct frame on_stack = {0, 0, 0, OWNER_NO_CODE};
  static struct {
    char header[16 + 48];
    struct frame frame;
  } generator;
  begin();
  verify(0, 2);
  uintptr_t innermost = lay_out(frames, 2);
  on_stack.previous = (uintptr_t)&chunk.frame[0];
  chunk.frame[1].previous = (uintptr_t)&on_stack;
  this_stack = (struct thread_stack){0, 0};
  check(named(innermost) == hash_of(frames, 2) && safe_reads == 1);
  this_stack = (struct thread_stack){(uintptr_t)&on_stack - 65536, (uintptr_t)&on_stack + sizeof on_stack};
  check(named(innermost) == hash_of(frames, 2) && safe_reads == 1);
  this_stack.high -= 8; /* the frame does not lie inside as a whole */
  check(named(innermost) == hash_of(frames, 2) && safe_reads == 2);
  generator.frame = chunk.frame[0];
  generator.frame.owner = OWNER_GENERATOR;
  chunk.frame[1].previous = (uintptr_t)&generator.frame;
  living_block = 0;
  check(named(innermost) == hash_of(frames, 2) && safe_reads == 3);
  living_block = (uintptr_t)&generator;
  check(named(innermost) == hash_of(frames, 2) && safe_reads == 3);
}

static void test_nothing_is_known_in_a_pause_or_with_other_addresses(void) {
  static const int frames[][2] = {{0, 5}};
  begin();
  uintptr_t innermost = lay_out(frames, 1);
  verify(0, 1);
  header.paused = 1;
  check(named(innermost) == 0 && !codes_known(code(0)));
  codes_verified(code(1));
  codes_forget();
  header.paused = 0;
  check(named(innermost) == 0 && !codes_known(code(1)) && watched == 0);
  verify(0, 1);
  codes_addresses_seen(false);
  check(!codes_known(code(0)) && watched == 0);
  verify(0, 1);
  check(watched == 0);
}

static void test_code_in_unmapped_memory_is_forgotten(void) {
  begin();
  verify(0, 4);
  codes_forget_range(code(1), code(3));
  check(codes_known(code(0)) && !codes_known(code(1)) && !codes_known(code(2)) && codes_known(code(3)) && watched == 2);
}

static void test_each_watch_ends_once(void) {
  begin();
  verify(0, 20000); /* more than there is room for */
  check(watched > 4000 && watched <= 8192);
  int known = 0;
  for (int i = 0; i < 20000; i++) known += codes_known(code(i));
  check(known == watched);
  for (int i = 0; i < 20000; i++) codes_changed(code(i));
  check(watched == 0);
}

static void test_a_child_knows_nothing_and_ends_no_watch_of_its_parent(void) {
  begin();
  uint64_t before = codes_generation();
  verify(0, 3);
  codes_postfork_child();
  recent_postfork_child();
  check(watched == 3 && !codes_known(code(0)) && codes_generation() != before);
  watched = 0;
}

static void *bounds_of_a_stack(void *argument) {
  char local[16];
  size_t bytes = (size_t)(uintptr_t)argument;
  thread_stack_begin(bytes);
  check(this_stack.high ||
        bytes < 8 << 20); /* the thread-local variables of the sanitizer may take most of a small one */
  if (!this_stack.high) return NULL;
  check(this_stack.high > (uintptr_t)local - 4096 && this_stack.low < (uintptr_t)local);
  check(this_stack.high - this_stack.low < bytes);
  check(!thread_stack_holds((uintptr_t)local - 65536, 8) && !thread_stack_holds(this_stack.high, 8));
  check(!thread_stack_holds(this_stack.high - 4, 8));
  thread_stack_begin(1000); /* too small to know anything */
  check(this_stack.low == 0 && this_stack.high == 0 && !thread_stack_holds((uintptr_t)local + 64, 8));
  return NULL;
}

static void test_the_bounds_of_a_stack_lie_inside_it(void) {
  static const size_t sizes[] = {256 << 10, 1 << 20, 8 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    pthread_attr_t attributes;
    pthread_t thread;
    check(!pthread_attr_init(&attributes) && !pthread_attr_setstacksize(&attributes, sizes[i]));
    check(!pthread_create(&thread, &attributes, bounds_of_a_stack, (void *)(uintptr_t)sizes[i]));
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
  }
}

static void *verify_and_change(void *argument) {
  unsigned random = (unsigned)(uintptr_t)argument;
  for (int i = 0; i < 100000; i++) {
    random = random * 1103515245 + 12345;
    int number = (int)(random >> 16) % 64;
    if (random >> 31) {
      codes_verified(code(number));
    } else {
      codes_changed(code(number));
    }
    codes_known(code(number));
  }
  return NULL;
}

static void test_threads_leave_no_watch_behind(void) {
  pthread_t thread[4];
  begin();
  for (uintptr_t i = 0; i < 4; i++) check(!pthread_create(&thread[i], NULL, verify_and_change, (void *)(i + 1)));
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 64; i++) codes_changed(code(i));
  check(watched == 0);
}

static void *name_stacks(void *argument) {
  static const int frames[][2] = {{0, 5}, {1, 7}};
  for (int i = 0; i < 20000; i++) {
    uint64_t found = named((uintptr_t)argument);
    check(found == 0 || found == hash_of(frames, 2)); /* 0: all memory is in use, or it is time to verify */
  }
  return NULL;
}

static void test_threads_name_stacks_at_the_same_time(void) {
  static const int frames[][2] = {{0, 5}, {1, 7}};
  pthread_t thread[6];
  begin();
  verify(0, 2);
  uintptr_t innermost = lay_out(frames, 2);
  for (int i = 0; i < 6; i++) check(!pthread_create(&thread[i], NULL, name_stacks, (void *)innermost));
  for (int i = 0; i < 6; i++) pthread_join(thread[i], NULL);
}

static void test_now_and_then_a_stack_is_verified(void) {
  static const int frames[][2] = {{0, 5}};
  int refused = 0;
  begin();
  verify(0, 1);
  uintptr_t innermost = lay_out(frames, 1);
  for (int i = 0; i < 3 * 4096; i++) refused += named(innermost) == 0;
  check(refused >= 2 && refused <= 4);
}

int main(void) {
  test_a_stack_of_known_code_is_named_without_a_read();
  test_missing_nodes_are_written_parents_first();
  test_only_what_changed_is_named_again();
  test_random_changes_give_the_names_of_whole_stacks();
  test_deeper_stacks_are_named_by_their_innermost_frames();
  test_random_depths_give_the_names_of_kept_frames();
  test_the_outermost_frame_of_a_deeper_stack_says_so();
  test_a_frame_that_is_set_up_belongs_to_its_caller();
  test_a_label_makes_another_node_of_the_innermost_frame();
  test_freed_and_allocated_addresses_are_no_longer_known();
  test_broken_chains_are_refused();
  test_frames_elsewhere_are_read_plainly_only_if_they_are_mapped();
  test_nothing_is_known_in_a_pause_or_with_other_addresses();
  test_code_in_unmapped_memory_is_forgotten();
  test_each_watch_ends_once();
  test_a_child_knows_nothing_and_ends_no_watch_of_its_parent();
  test_the_bounds_of_a_stack_lie_inside_it();
  test_threads_leave_no_watch_behind();
  test_threads_name_stacks_at_the_same_time();
  test_now_and_then_a_stack_is_verified();
  return 0;
}
