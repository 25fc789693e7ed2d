/* Evaluates the program of a seccomp filter for the system calls of the shim.
 *
 * The number of the call and the architecture are known, and the arguments are not: a branch that depends on them is
 * followed in both directions. Jumps only lead forward, so one pass over the program suffices: each instruction gets
 * what the accumulator may hold there, a known value or any. */
#include "inside/seccomp/filter_program.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "shared/base.h"
#include "shared/saferead.h"

#ifndef SYS_faccessat2
#define SYS_faccessat2 439
#endif
#define MOST_INSTRUCTIONS BPF_MAXINSNS
#define ACTION 0xffff0000u

/* Calls that must be allowed, and calls that the shim survives if they fail. */
static const uint16_t needed[] = {
    SYS_read,         SYS_openat,       SYS_close,         SYS_fstat,
    SYS_newfstatat,   SYS_pread64,      SYS_mmap,          SYS_munmap,
    SYS_mprotect,     SYS_madvise,      SYS_rt_sigaction,  SYS_rt_sigprocmask,
    SYS_rt_sigreturn, SYS_ioctl,        SYS_fcntl,         SYS_getpid,
    SYS_gettid,       SYS_getppid,      SYS_getuid,        SYS_geteuid,
    SYS_getgid,       SYS_getegid,      SYS_getrusage,     SYS_clock_gettime,
    SYS_timer_create, SYS_timer_delete, SYS_timer_settime, SYS_sched_yield,
    SYS_sigaltstack,  SYS_prctl,
#ifdef SYS_arch_prctl
    SYS_arch_prctl,
#endif
    SYS_prlimit64,
#ifdef SYS_readlink
    SYS_readlink,
#else
    SYS_readlinkat,
#endif
    SYS_write,        SYS_faccessat,    SYS_nanosleep,     SYS_rt_tgsigqueueinfo,
};
static const uint16_t may_fail[] = {
    SYS_perf_event_open, SYS_process_vm_readv, SYS_process_vm_writev, SYS_mincore,    SYS_kill,
    SYS_fgetxattr,       SYS_statfs,           SYS_fstatfs,           SYS_faccessat2, SYS_remap_file_pages,
    SYS_setrlimit,       SYS_getrlimit,        SYS_munlock,           SYS_getdents64,
};

/* What the accumulator may hold before an instruction. */
struct state {
  enum { UNREACHED, KNOWN, ANY } kind;
  uint32_t value;
};

static struct sock_filter code[MOST_INSTRUCTIONS];
static struct state states[MOST_INSTRUCTIONS];

static bool reach(uint32_t at, uint32_t length, struct state with) {
  if (at >= length) return false;
  struct state *state = &states[at];
  if (state->kind == UNREACHED) {
    *state = with;
  } else if (state->kind != with.kind || state->value != with.value) {
    state->kind = ANY;
  }
  return true;
}

static struct state loaded(const struct sock_filter *instruction, uint32_t number) {
  const struct state any = {ANY, 0};
  switch (instruction->code) {
  case BPF_LD | BPF_IMM: return (struct state){KNOWN, instruction->k};
  case BPF_LD | BPF_W | BPF_LEN: return (struct state){KNOWN, sizeof(struct seccomp_data)};
  case BPF_LD | BPF_W | BPF_ABS:
    if (instruction->k == offsetof(struct seccomp_data, nr)) return (struct state){KNOWN, number};
    return instruction->k == offsetof(struct seccomp_data, arch) ? (struct state){KNOWN, ARCH_AUDIT} : any;
  default: return any;
  }
}

static struct state calculated(const struct sock_filter *instruction, struct state a) {
  const struct state any = {ANY, 0};
  uint32_t k = instruction->k;
  if (a.kind != KNOWN || BPF_SRC(instruction->code) != BPF_K) return any;
  switch (BPF_OP(instruction->code)) {
  case BPF_ADD: return (struct state){KNOWN, a.value + k};
  case BPF_SUB: return (struct state){KNOWN, a.value - k};
  case BPF_AND: return (struct state){KNOWN, a.value & k};
  case BPF_OR: return (struct state){KNOWN, a.value | k};
  case BPF_XOR: return (struct state){KNOWN, a.value ^ k};
  default: return any;
  }
}

static bool holds(uint16_t operation, uint32_t a, uint32_t k) {
  switch (operation) {
  case BPF_JEQ: return a == k;
  case BPF_JGT: return a > k;
  case BPF_JGE: return a >= k;
  default: return (a & k) != 0;
  }
}

/* Marks where a jump may lead; false = out of the program. */
static bool jump(uint32_t at, uint32_t length, struct state a) {
  const struct sock_filter *instruction = &code[at];
  uint16_t operation = BPF_OP(instruction->code);
  uint32_t yes = at + 1 + instruction->jt, no = at + 1 + instruction->jf;
  if (operation == BPF_JA) return instruction->k < length && reach(at + 1 + instruction->k, length, a);
  if (a.kind == KNOWN && BPF_SRC(instruction->code) == BPF_K)
    return reach(holds(operation, a.value, instruction->k) ? yes : no, length, a);
  return reach(yes, length, a) && reach(no, length, a);
}

static bool is_accepted(const struct sock_filter *instruction, bool failure_too) {
  uint32_t action = instruction->k & ACTION;
  if (BPF_RVAL(instruction->code) != BPF_K) return false;
  return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG ||
         (failure_too && action == SECCOMP_RET_ERRNO && (instruction->k & SECCOMP_RET_DATA) != 0);
}

/* Follows one instruction; false = the call is not certain to be accepted. */
static bool step(uint32_t at, uint32_t length, uint32_t number, bool failure_too) {
  const struct sock_filter *instruction = &code[at];
  struct state a = states[at];
  switch (BPF_CLASS(instruction->code)) {
  case BPF_RET: return is_accepted(instruction, failure_too);
  case BPF_JMP: return jump(at, length, a);
  case BPF_LD: return reach(at + 1, length, loaded(instruction, number));
  case BPF_ALU: return reach(at + 1, length, calculated(instruction, a));
  case BPF_MISC: return reach(at + 1, length, BPF_MISCOP(instruction->code) == BPF_TXA ? (struct state){ANY, 0} : a);
  default: return reach(at + 1, length, a); /* loads of X, stores */
  }
}

static bool accepts(uint32_t length, uint32_t number, bool failure_too) {
  for (uint32_t at = 0; at < length; at++) states[at].kind = UNREACHED;
  states[0] = (struct state){KNOWN, 0};
  for (uint32_t at = 0; at < length; at++) {
    if (states[at].kind != UNREACHED && !step(at, length, number, failure_too)) return false;
  }
  return true;
}

bool filter_allows_us(const void *filter) {
  struct sock_fprog program;
  if (!safe_read(&program, filter, sizeof program) || !program.len || program.len > MOST_INSTRUCTIONS) return false;
  if (!safe_read(code, program.filter, program.len * sizeof *code)) return false;
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    if (!accepts(program.len, needed[i], false)) return false;
  }
  for (size_t i = 0; i < sizeof may_fail / sizeof *may_fail; i++) {
    if (!accepts(program.len, may_fail[i], true)) return false;
  }
  return true;
}
