/* Fuzzes the whole watcher, beside a process that does its worst: all of its memory is made of words that lead
 * somewhere, and change all the time, and so do the thread table and the header of the spool. Run under the address
 * sanitizer. The first argument is the number of seconds, the second the seed.
 *
 * Invariants, besides those of the sanitizers: a pass ends soon, and a watcher that has forgotten all threads holds no
 * descriptor. */
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "formats/spool/spool.h"
#include "shared/base.h"
#include "shared/clock.h"
#include "shared/native/image.h"
#include "shared/objects/pools.h"
#include "shared/random.h"
#include "shared/spool.h"
#include "shared/saferead.h"
#include "shared/stacks/pylayout.h"
#include "shared/stacks/target.h"
#include "shared/objects/labels.h"
#include "tests/check.h"
#include "tests/shared/published.h"
#include "watch/greenlets/greenlets.h"
#include "watch/greenlets/pools.h"
#include "watch/reading/labels.h"
#include "watch/reading/observation.h"
#include "watch/reading/remote.h"
#include "watch/threads.h"

#define CHUNKS 64
#define SPOOL_BYTES (SPOOL_CHUNKS_OFFSET + CHUNKS * SPOOL_CHUNK_BYTES)
#define WORLD ((uintptr_t)0x510000000000) /* the memory of the process, at the same address here and there */
#define WORLD_BYTES ((size_t)1 << 18)
#define WORDS (WORLD_BYTES / 8)
#define TYPES 19
#define TYPE_BYTES 512
#define TYPE_FLAGS 168
#define FIXED_BYTES (TYPES * TYPE_BYTES + RUNTIME_BYTES) /* the types, and the beginning of a runtime of 3.14 */
#define READY (1ul << 12)
#define SLOWEST_PASS_NS 5000000000 /* of CPU time, under a sanitizer */
#define FEW 12                     /* entries of the thread table that are in use */
#define MANY 64

static uint64_t random_state;
static char path[256];
static char *chunks; /* as the program has them mapped */
static pid_t children[2];
static char *world;

static uint64_t draw(uint64_t below) { return (random_next(&random_state) >> 11) % below; }

/* ---- the memory of the process ---- */

static const char *const type_names[TYPES] = {"dict",
                                              "set",
                                              "str",
                                              "int",
                                              "weakref.ReferenceType",
                                              "_asyncio.Task",
                                              "_RunningLoopHolder",
                                              "coroutine",
                                              "generator",
                                              "async_generator",
                                              "coroutine_wrapper",
                                              "code",
                                              "other",
                                              "frame",
                                              "greenlet.greenlet",
                                              "Hub",
                                              "hamt_bitmap_node",
                                              "hamt_array_node",
                                              "hamt_collision_node"};

static uintptr_t type_at(uint64_t number) { return WORLD + number * TYPE_BYTES; }
#define CODE_TYPE (type_at(11))
#define IDENT (WORLD + TYPES * TYPE_BYTES) /* of all threads */

static void put_types(void) {
  memset(world, 0, TYPES * TYPE_BYTES);
  for (uint64_t i = 0; i < TYPES; i++) {
    uint64_t *type = (uint64_t *)(world + i * TYPE_BYTES);
    type[1] = type_at(12);
    type[3] = type_at(i) + 400; /* name */
    type[4] = 200;              /* basic size */
    strcpy(world + i * TYPE_BYTES + 400, type_names[i]);
  }
  *(uint64_t *)(world + 2 * TYPE_BYTES + TYPE_FLAGS) = READY | 1ul << 28;
  *(uint64_t *)(world + 3 * TYPE_BYTES + TYPE_FLAGS) = READY | 1ul << 24;
  *(uint64_t *)(world + 12 * TYPE_BYTES + TYPE_FLAGS) = READY | 1ul << 9; /* a class of the program: of Threads */
  *(uint64_t *)(world + 15 * TYPE_BYTES + 256) = type_at(14);             /* the base of gevent's class */
  *(uint64_t *)(world + 12 * TYPE_BYTES + 288) = 16;                      /* where instances have their dict */
}

/* The offsets that 3.14 publishes. Those in an interpreter and in the runtime are small here, so that they lead to memory
 * that changes. */
static void put_runtime(void) {
  static const int small[][2] = {{40, RUNTIME_BYTES}, {64, 8}, {72, 16}, {88, 24}, {96, 32}, {160, 40}, {656, 8}};
  char *runtime = world + TYPES * TYPE_BYTES;
  published_fill(runtime);
  for (size_t i = 0; i < sizeof small / sizeof *small; i++) published_put(runtime, small[i][0], (uint64_t)small[i][1]);
}

/* A loader's list of two libraries, in memory that changes. One of them pretends to be as large as the address space, so
 * that the real stack of the process lies in it; its unwind tables are random. */
#define IMAGES (WORLD + WORLD_BYTES / 2)
static void put_images(void) {
  uint64_t *at = (uint64_t *)(world + (IMAGES - WORLD));
  uintptr_t elf = IMAGES + 4096;
  *(struct image_source *)at = (struct image_source){.list = IMAGES + 512, .headers = elf + 64, .header_count = 3};
  at[64] = IMAGES + 1024;
  *(struct link_map *)(at + 128) = (struct link_map){.l_next = (struct link_map *)(IMAGES + 2048)};
  *(struct link_map *)(at + 256) = (struct link_map){
      .l_addr = draw(2) ? elf : draw(1000), .l_name = (char *)elf, .l_next = (void *)(draw(2) * IMAGES)};
  Elf64_Ehdr file = {.e_ident = ELFMAG, .e_phoff = 64, .e_phnum = 3};
  memcpy(at + 512, &file, sizeof file);
  Elf64_Phdr header[3] = {{.p_type = PT_LOAD, .p_flags = PF_X, .p_memsz = UINT64_MAX >> draw(64)},
                          {.p_type = PT_LOAD, .p_filesz = draw(2) ? 8192 : UINT64_MAX - draw(99), .p_vaddr = 4096},
                          {.p_type = PT_GNU_EH_FRAME, .p_vaddr = 4096 + 4 * draw(1024)}};
  memcpy(at + 520, header, sizeof header);
  uint32_t *tables = (uint32_t *)((char *)(at + 512) + header[2].p_vaddr);
  tables[0] = 0x3b031b01;
  tables[1] = 64;
  tables[2] = (uint32_t)draw(100);
  for (int i = 3; i < 140; i++) tables[i] = (uint32_t)(draw(4) ? draw(8192) : random_next(&random_state));
}

/* A table of arenas in memory that changes. The first arena begins where the memory does, so its pools lie in it. In each
 * pool are greenlets, which lead to each other. */
#define ARENAS (WORLD + WORLD_BYTES / 4)
#define BLOCK_BYTES 192
static void put_greenlets(void) {
  uint64_t *root = (uint64_t *)(world + (ARENAS - WORLD));
  uint32_t *leaf = (uint32_t *)(world + 5 * POOL_BYTES);
  if (draw(8)) memset(root, 0, ARENA_LEAVES * sizeof *root), memset(leaf, 0, ARENA_LEAF_CELLS * sizeof *leaf);
  root[WORLD / ARENA_BYTES / ARENA_LEAF_CELLS] = (uint64_t)(WORLD + 5 * POOL_BYTES);
  leaf[WORLD / ARENA_BYTES % ARENA_LEAF_CELLS] = 1;
  for (uint64_t pool = 1; pool < 4; pool++) {
    char *header = world + pool * POOL_BYTES;
    uint32_t size_class[] = {BLOCK_BYTES / 16 - 1, 0, POOL_BYTES - BLOCK_BYTES};
    memcpy(header + POOL_SIZE_CLASS, size_class, sizeof size_class);
    *(uint64_t *)header = *(uint64_t *)(header + 8) = 8;
    for (uint64_t i = 0; i < 20; i++) {
      uint64_t *block = (uint64_t *)(header + POOL_HEADER_BYTES + 2 * i * BLOCK_BYTES), *greenlet = block + 24;
      uintptr_t at = WORLD + (uintptr_t)((char *)block - world), hub = WORLD + 1 * POOL_BYTES + 48 + BLOCK_BYTES;
      block[0] = type_at(draw(2)), block[1] = at + BLOCK_BYTES;
      block[7] = at + 4096, block[8] = at + 8192, block[13] = draw(4) ? WORLD + FIXED_BYTES + 8 * draw(1024) : 0;
      block[21] = hub + 2 * BLOCK_BYTES, block[23] = hub;
      greenlet[1] = type_at(i ? 14 : 15), greenlet[4] = at;
    }
  }
}

/* A word that may be a type, an address of the same memory, a length, the state of a str, or anything. */
static uint64_t word(void) {
  static const char text[] = "asyncio.tasks\0\0\0_scheduled_tasks_all_tasks\0\0_name\0\0\0_ident\0\0_daemonicgevent."
                             "hub\0\0\0\0\0\0Hub\0\0\0\0";
  uint64_t bytes;
  switch (draw(16)) {
  case 0:
  case 1:
  case 2:
  case 3:
  case 4: return WORLD + FIXED_BYTES + 8 * draw(WORDS - FIXED_BYTES / 8);
  case 5:
  case 6: return type_at(draw(TYPES));
  case 7: return CODE_TYPE;
  case 8: return draw(64);
  case 9: return IDENT;
  case 10: return 0x64 | draw(4) << 2; /* a compact ASCII str */
  case 11: return draw(2) ? 0 : UINT64_MAX - draw(256);
  case 12: return draw(4) ? (uint64_t)1 << draw(64) : 5 + draw(5); /* lengths of names of attributes */
  case 13: memcpy(&bytes, text + 8 * draw(sizeof text / 8), 8); return bytes;
  case 14: return WORLD + WORLD_BYTES - draw(512); /* at the end of what is mapped */
  default: return random_next(&random_state);
  }
}

static void change_world(size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t at = FIXED_BYTES / 8 + draw(WORDS - FIXED_BYTES / 8);
    ((volatile uint64_t *)world)[at] = word();
  }
}

/* Instances of the class have a dict, or values before or after them. */
static void change_class(void) {
  volatile uint64_t *flags = (volatile uint64_t *)(world + 12 * TYPE_BYTES + TYPE_FLAGS);
  *flags = READY | 1ul << 9 | (draw(3) ? 1ul << 4 : 0) | (draw(3) ? 1ul << 2 : 0);
}

/* ---- the thread table and the header ---- */

static const uint32_t versions[] = {0x030a0df0, 0x030b07f0, 0x030c01f0, 0x030d00f0, PUBLISHED_VERSION, 0, 0xffffffff};

static uint64_t odd(void) {
  static const uint64_t values[] = {0,          1,         UINT64_MAX,          INT64_MAX,       (uint64_t)INT64_MIN,
                                    UINT32_MAX, INT32_MAX, (uint64_t)INT32_MIN, PROCESS_WATCHER, 65536};
  return draw(3) ? values[draw(sizeof values / sizeof *values)] : random_next(&random_state);
}

static struct thread_entry *entry_at(uint64_t index) {
  return (struct thread_entry *)((char *)spool + SPOOL_THREAD_TABLE_OFFSET) + index;
}

static struct thread_entry drawn_entry(void) {
  struct thread_entry entry = {
      .state = (uint32_t)draw(4), .process = 1 + (uint32_t)draw(3), .thread = 1 + (uint32_t)draw(6)};
  if (draw(2)) entry.state = ENTRY_LIVE;
  entry.pid = entry.tid = children[entry.process % 2];
  entry.python_version = versions[draw(sizeof versions / sizeof *versions)];
  entry.runtime = WORLD + FIXED_BYTES + 8 * draw(1024);
  if (entry.python_version == PUBLISHED_VERSION && draw(8)) entry.runtime = WORLD + TYPES * TYPE_BYTES;
  entry.runtime_bytes = draw(4096);
  entry.code_type = CODE_TYPE;
  entry.pthread = IDENT;
  entry.python_thread = WORLD + FIXED_BYTES + 8 * draw(1024);
  entry.arenas = ARENAS;
  entry.images = draw(4) ? IMAGES : WORLD + FIXED_BYTES + 8 * draw(1024);
  entry.start_ns = clock_now_ns() - (int64_t)draw(1000000000);
  entry.end_ns = clock_now_ns();
  entry.cpu_end_ns = (int64_t)draw(1000000);
  if (!draw(4)) ((uint32_t *)&entry)[draw(sizeof entry / 4)] = (uint32_t)odd();
  if (!draw(8)) ((uint64_t *)&entry)[draw(sizeof entry / 8)] = odd();
  if (!draw(16)) entry.process = (uint32_t)draw(2000);
  return entry;
}

static void change_table(uint64_t entries) {
  uint64_t in_use = draw(8) ? FEW : MANY;
  for (uint64_t i = 0; i < entries; i++) {
    uint64_t at = draw(in_use);
    if (draw(4)) {
      *entry_at(at) = drawn_entry();
    } else {
      ((volatile uint64_t *)entry_at(at))[draw(sizeof(struct thread_entry) / 8)] = draw(2) ? odd() : draw(8);
    }
  }
  spool->table_changes++;
  spool->table_end = draw(8) ? MANY : (uint32_t)odd();
}

static void change_header(void) {
  static const size_t fields[] = {offsetof(struct spool_header, taken), offsetof(struct spool_header, offered)};
  *(volatile uint64_t *)((char *)spool + fields[draw(2)]) = draw(4) ? draw(1000000) : odd();
  ((uint32_t *)((char *)spool + SPOOL_HEADER_BYTES))[draw(SPOOL_RING)] = (uint32_t)(draw(2) ? draw(CHUNKS) : odd());
  *(volatile uint64_t *)(chunks + draw(CHUNKS) * SPOOL_CHUNK_BYTES + 8 * draw(8)) = odd();
}

/* The recorder offers all chunks again and again. */
static void offer(void) {
  uint32_t *ring = (uint32_t *)((char *)spool + SPOOL_HEADER_BYTES);
  for (uint32_t i = 0; i < SPOOL_RING; i++) ring[i] = i % CHUNKS;
  spool->taken = 0;
  spool->offered = CHUNKS;
}

/* ---- the processes ---- */

/* A child waits; the second also changes its memory and the table as fast as it can. */
static pid_t start_child(bool busy) {
  pid_t child = fork();
  check(child >= 0);
  if (child) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  random_state = (uint64_t)getpid() << 20 | 1;
  for (;;) {
    struct timespec pause = {0, busy ? 50000 : 1000000000};
    nanosleep(&pause, NULL);
    if (!busy) continue;
    change_world(64);
    change_table(1);
  }
}

static void create_spool(void) {
  const char *folder = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/hostile-spool-%d", folder ? folder : "/tmp", getpid());
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  struct spool_header header = {.magic = SPOOL_MAGIC,
                                .version = SPOOL_VERSION,
                                .chunk_bytes = SPOOL_CHUNK_BYTES,
                                .ring_entries = SPOOL_RING,
                                .chunk_count = CHUNKS,
                                .features = FEATURE_WAIT};
  check(fd >= 0 && !ftruncate(fd, SPOOL_BYTES));
  check(write(fd, &header, sizeof header) == (ssize_t)sizeof header);
  chunks = mmap(NULL, CHUNKS * SPOOL_CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, SPOOL_CHUNKS_OFFSET);
  check(chunks != MAP_FAILED);
  close(fd);
  check(!spool_open(path));
  unlink(path);
  spool_begin_process(PROCESS_WATCHER);
}

static int descriptors(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  check(folder);
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

static void check_time(int64_t since_cpu_ns) { check(clock_thread_cpu_ns() - since_cpu_ns < SLOWEST_PASS_NS); }

/* The program as a whole: some of its threads wait, are polled, end or lie. */
static void run(int64_t until_ns) {
  int before = descriptors();
  for (uint64_t pass = 0; clock_now_ns() < until_ns; pass++) {
    if (pass % 64 == 0) offer();
    change_world(draw(8) ? 32 : WORDS / 8);
    change_class();
    if (draw(4)) put_images();
    if (draw(4)) change_table(1 + draw(4));
    if (!draw(8)) change_header();
    int64_t began_ns = clock_now_ns(), began_cpu_ns = clock_thread_cpu_ns();
    threads_update(began_ns);
    threads_poll(began_ns, draw(2));
    check_time(began_cpu_ns);
    if (draw(64)) continue;
    threads_pause(clock_now_ns());
    check(descriptors() == before && !threads_processes());
    threads_resume(clock_now_ns());
  }
  threads_pause(clock_now_ns());
  check(descriptors() == before && !threads_processes());
}

/* Greenlets alone: the classes of gevent are known, as if they had been found. */
static uint32_t search_greenlets(const struct python_layout *layout) {
  static struct task_observation observations[TASKS_AT_ONCE];
  struct greenlets greenlets = {.base = type_at(14), .hub_class = type_at(15)};
  struct kinds kinds = {0};
  uintptr_t states[POOL_BLOCKS];
  uint32_t seen = 0;
  target = (struct stack_target){layout, CODE_TYPE, 1, layout->version << 16, 1, 0};
  for (int polls = 0; polls < 4; polls++) {
    change_world(16);
    if (polls % 2 == 0) put_greenlets();
    greenlets_refresh_hubs(&greenlets);
    pools_search(&greenlets, &kinds, ARENAS, (int64_t)draw(2) << 60);
    for (int i = greenlets.pool_count - 1; i >= 0; i--) {
      int count = pools_greenlets(&greenlets, i, states);
      greenlets_read(&greenlets, &kinds, children[0], states, observations, count);
      for (int at = 0; at < count; at++) seen += observations[at].state != TASK_GONE;
    }
  }
  greenlets_free(&greenlets);
  return seen;
}

static void run_greenlets(int64_t rounds) {
  static struct python_layout room;
  uint32_t seen = 0;
  safe_read_of(children[0], 0);
  for (int64_t i = 0; i < rounds; i++) {
    int64_t began_cpu_ns = clock_thread_cpu_ns();
    if (i % 8 == 0) offer();
    seen += search_greenlets(pylayout_for(versions[draw(4)], world, &room));
    check_time(began_cpu_ns);
  }
  check(seen > 0);
}

/* An address in the memory that changes. */
static uintptr_t somewhere(void) { return WORLD + 8 * draw(WORDS); }

/* Tries that lead anywhere: nodes of random kinds, pairs with the variable or without, and values that are long or short. */
static void put_tries(uintptr_t variable) {
  for (int i = 0; i < 4096; i++) {
    uint64_t *at = (uint64_t *)(world + FIXED_BYTES) + draw(WORDS - FIXED_BYTES / 8 - 8);
    uint64_t size = draw(8) ? LABELS_MAGIC_BYTES + draw(64) : random_next(&random_state) >> draw(64);
    at[1] = draw(4) ? type_at(16 + draw(3)) : somewhere();
    at[2] = draw(2) ? size : somewhere();
    at[3] = draw(2) ? somewhere() : random_next(&random_state);
    at[4] = draw(4) ? (draw(2) ? variable : 0) : somewhere();
    at[5] = somewhere();
    if (draw(4) == 0) memcpy(at + 4, LABELS_MAGIC, LABELS_MAGIC_BYTES);
  }
}

/* A context with a label, as it is in a program. Returns its address. */
static uintptr_t put_label(uintptr_t variable) {
  uintptr_t context = WORLD + FIXED_BYTES + 4096;
  uint64_t *at = (uint64_t *)(world + FIXED_BYTES + 4096), *trie = at + 8, *node = at + 16, *value = at + 96;
  at[3] = context + 64;
  trie[2] = context + 128;
  node[1] = type_at(16);
  node[3] = UINT32_MAX;
  for (int i = 0; i < 32; i++) node[4 + 2 * i] = variable, node[5 + 2 * i] = context + 768;
  value[2] = LABELS_MAGIC_BYTES + 1 + draw(300);
  memcpy(value + 4, LABELS_MAGIC, LABELS_MAGIC_BYTES);
  return context;
}

/* Labels alone, in contexts anywhere, and in one that is right before the memory changes. Whether their texts can be written
 * depends on what was done to the spool before. */
static void run_labels(int64_t rounds) {
  static struct python_layout room;
  static uint64_t labels[TASKS_AT_ONCE];
  uintptr_t contexts[TASKS_AT_ONCE];
  struct kinds kinds = {0};
  safe_read_of(children[0], 0);
  for (int64_t i = 0; i < rounds; i++) {
    int64_t began_cpu_ns = clock_thread_cpu_ns();
    const struct python_layout *layout = pylayout_for(versions[draw(4)], world, &room);
    struct label_source source = {.variable = somewhere(), .hash = random_next(&random_state)};
    target = (struct stack_target){layout, CODE_TYPE, 1, layout->version << 16, 1, 0};
    if (i % 8 == 0) offer();
    put_tries(source.variable);
    for (int at = 0; at < TASKS_AT_ONCE; at++) contexts[at] = draw(16) ? somewhere() : draw(5);
    contexts[draw(TASKS_AT_ONCE)] = put_label(source.variable);
    change_world(draw(64));
    labels_read(&source, &kinds, contexts, TASKS_AT_ONCE, labels);
    check_time(began_cpu_ns);
  }
}

int main(int argc, char **argv) {
  int64_t seconds = argc > 1 ? atoll(argv[1]) : 3;
  uint64_t seed = argc > 2 ? (uint64_t)atoll(argv[2]) : 7;
  random_state = seed;
  world =
      mmap((void *)WORLD, WORLD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  check((uintptr_t)world == WORLD);
  put_types();
  put_runtime();
  change_world(4 * WORDS);
  create_spool();
  offer();
  children[0] = start_child(false);
  children[1] = start_child(true);
  run(clock_now_ns() + seconds * 1000000000);
  kill(children[1], SIGSTOP); /* it would change what is searched */
  run_greenlets(20 * seconds);
  run_labels(100 * seconds);
  for (int i = 0; i < 2; i++) kill(children[i], SIGKILL), waitpid(children[i], NULL, 0);
  return 0;
}
