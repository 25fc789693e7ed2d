/* x86-64; arch.h includes it. */
#ifndef SCALENE_TRACE_SHARED_ARCH_X86_64_H
#define SCALENE_TRACE_SHARED_ARCH_X86_64_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <asm/prctl.h>
#include <cpuid.h>
#include <elf.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_OLDER_WAITS SYS_poll, SYS_select, SYS_epoll_wait /* calls of which newer processors have one form only */
#define ARCH_IS_VFORK(number) ((number) == SYS_vfork)
#define ARCH_AUDIT AUDIT_ARCH_X86_64
#define ARCH_ELF_MACHINE EM_X86_64
#define ARCH_KERNEL_CLOCK "__vdso_clock_gettime"
#define ARCH_FIRST_GLIBC "GLIBC_2.2.5"       /* the version of the symbols that libc has always had */
#define ARCH_HIGHEST_ADDRESS 0x7ffffffff000u /* no byte of a process lies there or above */
#define ARCH_ADDRESS_BITS 47                 /* of the address of any byte of a process */
#define ARCH_MOST_PAGE_BYTES 4096            /* the largest page that a kernel of this processor has */
#define ARCH_READS_X86_CODE true             /* loop.c and evidence.c decode instructions of this processor */
/* Types of relocations of a call, of an entry of the global offset table, and of a pointer in data. */
#define ARCH_RELOCATION_CALL R_X86_64_JUMP_SLOT
#define ARCH_RELOCATION_TABLE R_X86_64_GLOB_DAT
#define ARCH_RELOCATION_POINTER R_X86_64_64
/* As APART and ALWAYS_INLINE of base.h, which comes later. */
#define ARCH_APART __attribute__((noinline, unused))
#define ARCH_INLINE inline __attribute__((always_inline))

/* Returns the size of the kernel's pages. */
static inline size_t arch_page_bytes(void) { return ARCH_MOST_PAGE_BYTES; }

/* Returns the processor's own counter, which a thread may read; 0 = there is none. Context: signal. */
static inline uint64_t arch_ticks(void) { return __builtin_ia32_rdtsc(); }

/* ---- registers, by DWARF's numbers ---- */

#define DWARF_EXTRA 3    /* rbx: ld.so's _dl_runtime_resolve finds its frame by it */
#define DWARF_FRAME 6    /* rbp */
#define DWARF_FURTHER 12 /* r12, the first of four */
#define DWARF_STACK 7    /* rsp */
#define DWARF_PC 16
#define DWARF_RETURN 16 /* the column of the return address in the unwind tables */
#define DWARF_REGISTERS 17
#define ARCH_LINK_REGISTER false /* a call pushes the return address: the stack pointer of the caller is right above */
typedef uint32_t arch_register_set; /* bit n: register n */

/* Context: signal. */
static inline uintptr_t arch_interrupted_pc(const void *context) {
  const ucontext_t *user = context;
  return (uintptr_t)user->uc_mcontext.gregs[REG_RIP];
}
/* Context: signal. */
static inline uintptr_t arch_interrupted_sp(const void *context) {
  const ucontext_t *user = context;
  return (uintptr_t)user->uc_mcontext.gregs[REG_RSP];
}
/* Stores all registers of an interrupted thread. Context: signal. */
static inline void arch_registers_of(const void *context, uintptr_t value[DWARF_REGISTERS]) {
  static const uint8_t place[DWARF_REGISTERS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
                                                 REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                 REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};
  const ucontext_t *user = context;
  for (int i = 0; i < DWARF_REGISTERS; i++) value[i] = (uintptr_t)user->uc_mcontext.gregs[place[i]];
}
/* The registers that a perf event samples (a mask of linux/perf_event's PERF_REG_*), in the order of which it stores them: by
 * DWARF's numbers. */
#define ARCH_PERF_REGISTERS 0xff01ffu
static const uint8_t arch_perf_order[DWARF_REGISTERS] = {0, 3, 2, 1, 4, 5, 6, 7, 16, 8, 9, 10, 11, 12, 13, 14, 15};
/* Stores the pc, the stack pointer and the registers that unwinding follows, of the calling function.
 * Context: signal. */
static ARCH_INLINE void arch_registers_here(uintptr_t value[DWARF_REGISTERS]) {
  __asm__ volatile("mov %%rbx, %0; mov %%rbp, %1; mov %%rsp, %2; lea 0(%%rip), %%rax; mov %%rax, %3"
                   : "=m"(value[DWARF_EXTRA]), "=m"(value[DWARF_FRAME]), "=m"(value[DWARF_STACK]), "=m"(value[DWARF_PC])
                   :
                   : "rax");
}
/* Where a context of makecontext, whose stack is [stack, stack + bytes), returns to; 0 = unknown. Context: normal. */
static inline uintptr_t arch_context_end(const ucontext_t *context, const void *stack, size_t bytes) {
  uintptr_t place = (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
  bool inside = place >= (uintptr_t)stack && place < (uintptr_t)stack + bytes;
  return inside ? *(const uintptr_t *)place : 0;
}

/* Whether the function to which handlers of signals return has no unwind table and is known by its first instructions, and
 * where the interrupted registers then lie, from the stack pointer there. */
#define ARCH_SIGNAL_FRAMES_BY_CODE false
static inline bool arch_returns_from_signal(const uint32_t code[2]) {
  (void)code;
  return false;
}
#define ARCH_SIGNAL_PC 0
#define ARCH_SIGNAL_STACK 0
#define ARCH_SIGNAL_FRAME 0
#define ARCH_SIGNAL_EXTRA 0
#define ARCH_SIGNAL_RETURN 0

/* ---- code ---- */

/* The address that a word of the stack means, if it is a return address. Context: signal. */
static inline uintptr_t arch_code_address(uintptr_t word) { return word; }

/* True if a call instruction ends right before `p`: E8 rel32, or FF /2 with any operand. Reads 7 bytes before `p`.
 * Context: signal. */
static ARCH_APART bool arch_follows_call(const uint8_t *p) {
  if (p[-5] == 0xe8) return true;
  for (int length = 2; length <= 7; length++) {
    uint8_t modrm = p[1 - length];
    if (p[-length] != 0xff || (modrm & 0x38) != 0x10) continue;
    int mode = modrm >> 6, base = modrm & 7;
    int need = 2 + (mode != 3 && base == 4);
    if (mode == 1) need += 1;
    if (mode == 2 || (mode == 0 && base == 5)) need += 4;
    if (need == length) return true;
  }
  return false;
}

/* Where the call instruction before `after` leads, if it names its target; else 0. Reads 5 bytes. Context: signal. */
static inline uintptr_t arch_called_directly(uintptr_t after) {
  int32_t distance;
  __builtin_memcpy(&distance, (const void *)(after - sizeof distance), sizeof distance);
  return *(const uint8_t *)(after - 5) == 0xe8 ? after + (uintptr_t)(intptr_t)distance : 0;
}

/* ---- threads and the kernel ---- */

/* The first word of the block to which the thread pointer leads: in every thread that libc has set up it is the block's
 * own address. 0 = libc has not set up this thread. Context: signal. */
static inline uintptr_t arch_thread_block(void) {
  uintptr_t first;
  __asm__ volatile("mov %%fs:0, %0" : "=r"(first));
  return first;
}

/* False where the thread pointer may not even be read, as in a child of clone without thread-local storage. The thread
 * pointer points to itself in every thread that libc has set up. Context: signal. */
static inline bool arch_thread_is_set_up(void) {
  uintptr_t pointer = 0;
  if (syscall(SYS_arch_prctl, ARCH_GET_FS, &pointer) || pointer == 0) return false;
  return *(const volatile uintptr_t *)pointer == pointer;
}

/* A system call with six arguments; returns what the kernel does. Context: signal. */
static inline long arch_system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long fourth __asm__("r10") = d;
  register long fifth __asm__("r8") = e;
  register long sixth __asm__("r9") = f;
  long result = number;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                   : "rcx", "r11", "memory");
  return result;
}

/* The size of a signal frame: the extended state of the processor, and the rest. Context: signal. */
static inline size_t arch_signal_frame_bytes(void) {
  unsigned eax, extended_state = 0, ecx, edx;
  __get_cpuid_count(13, 0, &eax, &extended_state, &ecx, &edx);
  return extended_state + 1536;
}

/* Lets the other thread of a core go on while this one waits for it. Context: signal. */
static inline void arch_pause(void) { __builtin_ia32_pause(); }

/* What floating point keeps between instructions. By default all exceptions are masked, and no flag is raised. */
typedef uint32_t arch_float_state;
#define ARCH_FLOAT_DEFAULT 0x1f80
/* Context: malloc. */
static inline arch_float_state arch_float_state_now(void) { return __builtin_ia32_stmxcsr(); }
/* Context: malloc. */
static inline void arch_float_state_set(arch_float_state state) { __builtin_ia32_ldmxcsr(state); }

/* Makes a request of valgrind: rotations of a register that cancel each other out, and an exchange of a register with
 * itself. A processor executes them without effect, and the result is 0. Context: signal. */
static inline uint64_t arch_valgrind_request(volatile uint64_t request[6]) {
  uint64_t result = 0;
  __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                   : "+d"(result)
                   : "a"(&request[0])
                   : "cc", "memory");
  return result;
}

/* ---- functions that jump to the real one with their caller's stack ---- */

/* Calls of syscall() with one of two numbers go to `made`; the others jump to the function at `real`, if it is set. */
#define ARCH_SYSCALL_FUNCTION(prctl, seccomp, made, real)                                                              \
  __asm__(".pushsection .text\n"                                                                                       \
          ".globl syscall\n"                                                                                           \
          ".type syscall, @function\n"                                                                                 \
          "syscall:\n"                                                                                                 \
          "  .cfi_startproc\n"                                                                                         \
          "  endbr64\n"                                                                                                \
          "  cmp $" prctl ", %rdi\n"                                                                                   \
          "  je " made "\n"                                                                                            \
          "  cmp $" seccomp ", %rdi\n"                                                                                 \
          "  je " made "\n"                                                                                            \
          "  mov " real "(%rip), %rax\n"                                                                               \
          "  test %rax, %rax\n"                                                                                        \
          "  je " made "\n"                                                                                            \
          "  jmp *%rax\n"                                                                                              \
          "  .cfi_endproc\n"                                                                                           \
          ".size syscall, . - syscall\n"                                                                               \
          ".popsection\n")
#define ARCH_PRCTL 157
#define ARCH_SECCOMP 317

/* dlsym: the result of `before`, or, if that is null, of the function at `real`. */
#define ARCH_DLSYM_FUNCTION(before, real)                                                                              \
  __asm__(".pushsection .text\n"                                                                                       \
          ".globl dlsym\n"                                                                                             \
          ".type dlsym, @function\n"                                                                                   \
          "dlsym:\n"                                                                                                   \
          "  .cfi_startproc\n"                                                                                         \
          "  endbr64\n"                                                                                                \
          "  push %rdi\n"                                                                                              \
          "  .cfi_adjust_cfa_offset 8\n"                                                                               \
          "  push %rsi\n"                                                                                              \
          "  .cfi_adjust_cfa_offset 8\n"                                                                               \
          "  sub $8, %rsp\n"                                                                                           \
          "  .cfi_adjust_cfa_offset 8\n"                                                                               \
          "  call " before "\n"                                                                                        \
          "  add $8, %rsp\n"                                                                                           \
          "  .cfi_adjust_cfa_offset -8\n"                                                                              \
          "  pop %rsi\n"                                                                                               \
          "  .cfi_adjust_cfa_offset -8\n"                                                                              \
          "  pop %rdi\n"                                                                                               \
          "  .cfi_adjust_cfa_offset -8\n"                                                                              \
          "  test %rax, %rax\n"                                                                                        \
          "  jne 1f\n"                                                                                                 \
          "  mov " real "(%rip), %rax\n"                                                                               \
          "  jmp *%rax\n"                                                                                              \
          "1: ret\n"                                                                                                   \
          "  .cfi_endproc\n"                                                                                           \
          ".size dlsym, . - dlsym\n"                                                                                   \
          ".popsection\n")

#endif
