/* Which filters are certain to allow what the shim does: filters with a known answer, and random ones, whose actions are
 * calculated for random arguments. */
#include "inside/seccomp/filter_program.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "shared/base.h"
#include "shared/saferead.h"
#include "tests/check.h"

bool safe_read(void *to, const void *from, size_t size) {
  if (!from) return false;
  memcpy(to, from, size);
  return true;
}

#define STATEMENT(code, k) ((struct sock_filter)BPF_STMT(code, k))
#define JUMP(code, k, yes, no) ((struct sock_filter)BPF_JUMP(BPF_JMP | (code) | BPF_K, k, yes, no))
#define LOAD(field) STATEMENT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action) STATEMENT(BPF_RET | BPF_K, action)
#define LENGTH(array) (sizeof(array) / sizeof *(array))

static bool allowed(struct sock_filter *code, size_t length) {
  struct sock_fprog program = {(unsigned short)length, code};
  return filter_allows_us(&program);
}

/* `action` for one system call, and `otherwise` for the others. */
static bool allowed_with(uint32_t number, uint32_t action, uint32_t otherwise) {
  struct sock_filter code[] = {LOAD(arch),       JUMP(BPF_JEQ, ARCH_AUDIT, 1, 0), RETURN(SECCOMP_RET_KILL_PROCESS),
                               LOAD(nr),         JUMP(BPF_JEQ, number, 0, 1),     RETURN(action),
                               RETURN(otherwise)};
  return allowed(code, LENGTH(code));
}

static void test_known_answers(void) {
  const uint32_t refuse = SECCOMP_RET_ERRNO | 1, kill = SECCOMP_RET_KILL_PROCESS, allow = SECCOMP_RET_ALLOW;
  check(allowed_with(SYS_ptrace, kill, allow));
  check(allowed_with(SYS_ptrace, SECCOMP_RET_TRAP, SECCOMP_RET_LOG));
  check(allowed_with(SYS_perf_event_open, refuse, allow));
  check(allowed_with(SYS_process_vm_readv, refuse, allow));
  check(!allowed_with(SYS_perf_event_open, kill, allow));
  check(allowed_with(SYS_getdents64, refuse, allow) && !allowed_with(SYS_getdents64, kill, allow));
  check(!allowed_with(SYS_getpid, refuse, allow));
  check(!allowed_with(SYS_timer_settime, SECCOMP_RET_TRAP, allow));
  check(!allowed_with(SYS_read, allow, kill));
  check(!allowed_with(SYS_gettid, SECCOMP_RET_USER_NOTIF, allow));
}

static void test_arguments_count_as_unknown(void) {
  struct sock_filter harmless[] = {LOAD(nr),
                                   JUMP(BPF_JEQ, SYS_clone, 0, 3),
                                   LOAD(args[0]),
                                   JUMP(BPF_JSET, 0x10000, 1, 0),
                                   RETURN(SECCOMP_RET_KILL_PROCESS),
                                   RETURN(SECCOMP_RET_ALLOW)};
  check(allowed(harmless, LENGTH(harmless)));
  harmless[1].k = SYS_ioctl;
  check(!allowed(harmless, LENGTH(harmless)));
}

static void test_other_instructions(void) {
  struct sock_filter x32[] = {LOAD(nr),
                              JUMP(BPF_JGE, 0x40000000, 0, 1),
                              RETURN(SECCOMP_RET_KILL_PROCESS),
                              STATEMENT(BPF_ALU | BPF_AND | BPF_K, 0),
                              JUMP(BPF_JEQ, 0, 1, 0),
                              RETURN(SECCOMP_RET_KILL_PROCESS),
                              RETURN(SECCOMP_RET_ALLOW)};
  struct sock_filter by_accumulator[] = {STATEMENT(BPF_LD | BPF_IMM, SECCOMP_RET_ALLOW), STATEMENT(BPF_RET | BPF_A, 0)};
  struct sock_filter too_far[] = {STATEMENT(BPF_JMP | BPF_JA, 5), RETURN(SECCOMP_RET_ALLOW)};
  struct sock_filter endless[] = {LOAD(nr)};
  struct sock_filter fails[] = {LOAD(nr), JUMP(BPF_JEQ, SYS_perf_event_open, 0, 1), RETURN(SECCOMP_RET_ERRNO | EPERM),
                                RETURN(SECCOMP_RET_ALLOW)};
  check(allowed(fails, LENGTH(fails)));
  fails[2].k = SECCOMP_RET_ERRNO; /* the call seems to succeed, with the result 0 */
  check(!allowed(fails, LENGTH(fails)));
  check(allowed(x32, LENGTH(x32)));
  check(!allowed(by_accumulator, LENGTH(by_accumulator)));
  check(!allowed(too_far, LENGTH(too_far)));
  check(!allowed(endless, LENGTH(endless)));
  check(!allowed(NULL, 3) && !allowed(x32, 0) && !allowed(x32, 5000) && !filter_allows_us(NULL));
}

/* ---- random filters ---- */

#define MOST 12
static uint32_t drawn(uint32_t below) { return (uint32_t)rand() % below; }

static struct sock_filter random_instruction(size_t left) {
  static const uint32_t values[] = {SYS_read, SYS_getpid, SYS_ioctl, SYS_ptrace, 0x40000000, 3, 0};
  static const uint16_t jumps[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
  static const uint16_t alu[] = {BPF_ADD, BPF_SUB, BPF_AND, BPF_OR, BPF_XOR, BPF_MUL};
  uint32_t value = values[drawn(LENGTH(values))];
  if (left == 0) return RETURN(SECCOMP_RET_ALLOW);
  switch (drawn(8)) {
  case 0: return LOAD(nr);
  case 1: return LOAD(args[0]);
  case 2: return STATEMENT(BPF_LD | BPF_IMM, value);
  case 3: return STATEMENT((uint16_t)(BPF_ALU | BPF_K | alu[drawn(LENGTH(alu))]), value);
  case 4: return drawn(4) ? LOAD(nr) : RETURN(SECCOMP_RET_KILL_PROCESS);
  case 5: return STATEMENT(BPF_MISC | (drawn(2) ? BPF_TAX : BPF_TXA), 0);
  default:
    return (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | BPF_K | jumps[drawn(LENGTH(jumps))]), value,
                                        (uint8_t)drawn((uint32_t)left), (uint8_t)drawn((uint32_t)left));
  }
}

static uint32_t calculate(uint16_t operation, uint32_t a, uint32_t k) {
  switch (operation) {
  case BPF_ADD: return a + k;
  case BPF_SUB: return a - k;
  case BPF_AND: return a & k;
  case BPF_OR: return a | k;
  case BPF_XOR: return a ^ k;
  default: return a * k;
  }
}

static bool jumps_to_yes(uint16_t operation, uint32_t a, uint32_t k) {
  if (operation == BPF_JEQ) return a == k;
  if (operation == BPF_JGT) return a > k;
  return operation == BPF_JGE ? a >= k : (a & k) != 0;
}

/* The action of a filter, by the rules of the kernel's documentation. */
static uint32_t action_of(const struct sock_filter *code, uint32_t number, uint32_t argument) {
  uint32_t a = 0, x = 0;
  for (const struct sock_filter *at = code;; at++) {
    uint16_t operation = BPF_OP(at->code);
    if (BPF_CLASS(at->code) == BPF_RET) return at->k;
    if (at->code == (BPF_LD | BPF_IMM)) a = at->k;
    if (at->code == (BPF_LD | BPF_W | BPF_ABS)) a = at->k == 0 ? number : argument;
    if (BPF_CLASS(at->code) == BPF_ALU) a = calculate(operation, a, at->k);
    if (at->code == (BPF_MISC | BPF_TAX)) x = a;
    if (at->code == (BPF_MISC | BPF_TXA)) a = x;
    if (BPF_CLASS(at->code) == BPF_JMP) at += jumps_to_yes(operation, a, at->k) ? at->jt : at->jf;
  }
}

static void test_random_filters(void) {
  static const uint32_t numbers[] = {SYS_read, SYS_getpid, SYS_ioctl, SYS_mmap, SYS_openat, SYS_prctl};
  int harmless = 0;
  for (int i = 0; i < 200000; i++) {
    struct sock_filter code[MOST];
    size_t length = 2 + drawn(MOST - 1);
    for (size_t at = 0; at < length; at++) code[at] = random_instruction(length - 1 - at);
    if (!allowed(code, length)) continue;
    harmless++;
    for (int k = 0; k < 20; k++) {
      uint32_t argument = drawn(2) ? drawn(400) : (uint32_t)rand() << 1;
      check(action_of(code, numbers[drawn(LENGTH(numbers))], argument) == SECCOMP_RET_ALLOW);
    }
  }
  check(harmless > 1000);
}

int main(void) {
  test_known_answers();
  test_arguments_count_as_unknown();
  test_other_instructions();
  test_random_filters();
  return 0;
}
