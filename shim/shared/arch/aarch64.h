/* arm64, 64-bit and little-endian; arch.h includes it. What each name means is described in x86_64.h. */
#ifndef SCALENE_TRACE_SHARED_ARCH_AARCH64_H
#define SCALENE_TRACE_SHARED_ARCH_AARCH64_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <elf.h>
#include <linux/audit.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>

#define ARCH_OLDER_WAITS SYS_epoll_pwait2
#define ARCH_IS_VFORK(number) ((void)(number), false)
#define ARCH_AUDIT AUDIT_ARCH_AARCH64
#define ARCH_ELF_MACHINE EM_AARCH64
#define ARCH_KERNEL_CLOCK "__kernel_clock_gettime"
#define ARCH_FIRST_GLIBC "GLIBC_2.17"
#define ARCH_HIGHEST_ADDRESS 0xfffffffff000u
#define ARCH_ADDRESS_BITS 48
#define ARCH_MOST_PAGE_BYTES 65536
#define ARCH_READS_X86_CODE false
#define ARCH_RELOCATION_CALL R_AARCH64_JUMP_SLOT
#define ARCH_RELOCATION_TABLE R_AARCH64_GLOB_DAT
#define ARCH_RELOCATION_POINTER R_AARCH64_ABS64
#define ARCH_APART __attribute__((noinline, unused))
#define ARCH_INLINE inline __attribute__((always_inline))

static inline size_t arch_page_bytes(void) { return getauxval(AT_PAGESZ); }

/* Returns the processor's own counter, which a thread may read; 0 = there is none. Context: signal. */
static inline uint64_t arch_ticks(void) { return 0; } /* the one that there is costs as much as the clock */

/* ---- registers, by DWARF's numbers ---- */

#define DWARF_EXTRA 19
#define DWARF_FRAME 29
#define DWARF_FURTHER 20
#define DWARF_STACK 31
#define DWARF_PC 32
#define DWARF_RETURN 30 /* x30: a call stores the return address there; functions that call others save it */
#define DWARF_REGISTERS 33
#define ARCH_LINK_REGISTER true
typedef uint64_t arch_register_set;

static inline uintptr_t arch_interrupted_pc(const void *context) {
  const ucontext_t *user = context;
  return (uintptr_t)user->uc_mcontext.pc;
}
static inline uintptr_t arch_interrupted_sp(const void *context) {
  const ucontext_t *user = context;
  return (uintptr_t)user->uc_mcontext.sp;
}
static inline void arch_registers_of(const void *context, uintptr_t value[DWARF_REGISTERS]) {
  const ucontext_t *user = context;
  for (int i = 0; i < DWARF_STACK; i++) value[i] = (uintptr_t)user->uc_mcontext.regs[i];
  value[DWARF_STACK] = (uintptr_t)user->uc_mcontext.sp;
  value[DWARF_PC] = (uintptr_t)user->uc_mcontext.pc;
}
#define ARCH_PERF_REGISTERS 0x1ffffffffu
static const uint8_t arch_perf_order[DWARF_REGISTERS] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                                         11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                                         22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};
/* x30 may have been used for something else already, so it is not among them. */
static ARCH_INLINE void arch_registers_here(uintptr_t value[DWARF_REGISTERS]) {
  uintptr_t extra, frame, stack, pc;
  __asm__ volatile("mov %0, x19\n mov %1, x29\n mov %2, sp\n adr %3, ."
                   : "=&r"(extra), "=&r"(frame), "=&r"(stack), "=&r"(pc));
  value[DWARF_EXTRA] = extra;
  value[DWARF_FRAME] = frame;
  value[DWARF_STACK] = stack;
  value[DWARF_PC] = pc;
}
static inline uintptr_t arch_context_end(const ucontext_t *context, const void *stack, size_t bytes) {
  (void)stack, (void)bytes;
  return (uintptr_t)context->uc_mcontext.regs[DWARF_RETURN];
}

/* mov x8, #139; svc #0. The kernel's frame lies at the stack pointer: what describes the signal, then its context. */
#define ARCH_SIGNAL_FRAMES_BY_CODE true
static inline bool arch_returns_from_signal(const uint32_t code[2]) {
  return code[0] == 0xd2801168 && code[1] == 0xd4000001;
}
#define ARCH_SIGNAL_CONTEXT(member) ((int32_t)(sizeof(siginfo_t) + offsetof(ucontext_t, uc_mcontext.member)))
#define ARCH_SIGNAL_PC ARCH_SIGNAL_CONTEXT(pc)
#define ARCH_SIGNAL_STACK ARCH_SIGNAL_CONTEXT(sp)
#define ARCH_SIGNAL_FRAME ARCH_SIGNAL_CONTEXT(regs[DWARF_FRAME])
#define ARCH_SIGNAL_EXTRA ARCH_SIGNAL_CONTEXT(regs[DWARF_EXTRA])
#define ARCH_SIGNAL_RETURN ARCH_SIGNAL_CONTEXT(regs[DWARF_RETURN])

/* ---- code ---- */

/* With pointer authentication the upper bits of a saved return address are a signature. */
static inline uintptr_t arch_code_address(uintptr_t word) { return word & (((uintptr_t)1 << ARCH_ADDRESS_BITS) - 1); }

static inline uint32_t arch_instruction_at(uintptr_t address) {
  uint32_t instruction;
  __builtin_memcpy(&instruction, (const void *)address, sizeof instruction);
  return instruction;
}

/* BL, BLR, and BLRAA and its kind, which authenticate the pointer. */
static ARCH_APART bool arch_follows_call(const uint8_t *p) {
  uint32_t instruction = arch_instruction_at((uintptr_t)p - 4);
  return (instruction & 0xfc000000) == 0x94000000 || (instruction & 0xfffffc1f) == 0xd63f0000 ||
         (instruction & 0xfefff800) == 0xd63f0800;
}

static inline uintptr_t arch_called_directly(uintptr_t after) {
  uint32_t instruction = arch_instruction_at(after - 4);
  int64_t distance = (int64_t)((uint64_t)instruction << 38) >> 36;
  return (instruction & 0xfc000000) == 0x94000000 ? after - 4 + (uintptr_t)distance : 0;
}

/* ---- threads and the kernel ---- */

/* The thread pointer is the address of the thread's control block, which holds that of the table of thread-local blocks. */
static inline uintptr_t arch_thread_block(void) {
  uintptr_t pointer = (uintptr_t)__builtin_thread_pointer();
  return pointer && *(const uintptr_t *)pointer ? pointer : 0;
}

static inline bool arch_thread_is_set_up(void) { return arch_thread_block() != 0; }

static inline long arch_system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}

/* Without SVE: kernels that support SVE tell programs the size. */
static inline size_t arch_signal_frame_bytes(void) { return 5120; }

static inline void arch_pause(void) { __asm__ volatile("yield"); }

/* The flags (FPSR) in the upper half, the modes (FPCR) in the lower one. */
typedef uint64_t arch_float_state;
#define ARCH_FLOAT_DEFAULT 0
static inline arch_float_state arch_float_state_now(void) {
  uint64_t flags, modes;
  __asm__ volatile("mrs %0, fpsr\n mrs %1, fpcr" : "=r"(flags), "=r"(modes)::"memory");
  return flags << 32 | (uint32_t)modes;
}
static inline void arch_float_state_set(arch_float_state state) {
  uint64_t flags = state >> 32, modes = (uint32_t)state;
  __asm__ volatile("msr fpsr, %0\n msr fpcr, %1" : : "r"(flags), "r"(modes) : "memory");
}

static inline uint64_t arch_valgrind_request(volatile uint64_t request[6]) {
  register uint64_t result __asm__("x3") = 0;
  register volatile uint64_t *arguments __asm__("x4") = request;
  __asm__ volatile("ror x12, x12, #3; ror x12, x12, #13; ror x12, x12, #51; ror x12, x12, #61; orr x10, x10, x10"
                   : "+r"(result)
                   : "r"(arguments)
                   : "memory", "x12");
  return result;
}

/* ---- functions that jump to the real one with their caller's stack ---- */

#define ARCH_SYSCALL_FUNCTION(prctl, seccomp, made, real)                                                              \
  __asm__(".pushsection .text\n"                                                                                       \
          ".globl syscall\n"                                                                                           \
          ".type syscall, %function\n"                                                                                 \
          ".balign 4\n"                                                                                                \
          "syscall:\n"                                                                                                 \
          "  .cfi_startproc\n"                                                                                         \
          "  hint #34\n" /* bti c */                                                                                   \
          "  cmp x0, #" prctl "\n"                                                                                     \
          "  b.eq 1f\n"                                                                                                \
          "  cmp x0, #" seccomp "\n"                                                                                   \
          "  b.eq 1f\n"                                                                                                \
          "  adrp x16, " real "\n"                                                                                     \
          "  ldr x16, [x16, :lo12:" real "]\n"                                                                         \
          "  cbz x16, 1f\n"                                                                                            \
          "  br x16\n"                                                                                                 \
          "1: b " made "\n"                                                                                            \
          "  .cfi_endproc\n"                                                                                           \
          ".size syscall, . - syscall\n"                                                                               \
          ".popsection\n")
#define ARCH_PRCTL 167
#define ARCH_SECCOMP 277

#define ARCH_DLSYM_FUNCTION(before, real)                                                                              \
  __asm__(".pushsection .text\n"                                                                                       \
          ".globl dlsym\n"                                                                                             \
          ".type dlsym, %function\n"                                                                                   \
          ".balign 4\n"                                                                                                \
          "dlsym:\n"                                                                                                   \
          "  .cfi_startproc\n"                                                                                         \
          "  hint #34\n" /* bti c */                                                                                   \
          "  stp x29, x30, [sp, #-32]!\n"                                                                              \
          "  .cfi_def_cfa_offset 32\n"                                                                                 \
          "  .cfi_offset 29, -32\n"                                                                                    \
          "  .cfi_offset 30, -24\n"                                                                                    \
          "  mov x29, sp\n"                                                                                            \
          "  stp x0, x1, [sp, #16]\n"                                                                                  \
          "  bl " before "\n"                                                                                          \
          "  mov x16, x0\n"                                                                                            \
          "  ldp x0, x1, [sp, #16]\n"                                                                                  \
          "  ldp x29, x30, [sp], #32\n"                                                                                \
          "  .cfi_restore 30\n"                                                                                        \
          "  .cfi_restore 29\n"                                                                                        \
          "  .cfi_def_cfa_offset 0\n"                                                                                  \
          "  cbnz x16, 1f\n"                                                                                           \
          "  adrp x16, " real "\n"                                                                                     \
          "  ldr x16, [x16, :lo12:" real "]\n"                                                                         \
          "  br x16\n"                                                                                                 \
          "1: mov x0, x16\n"                                                                                           \
          "  ret\n"                                                                                                    \
          "  .cfi_endproc\n"                                                                                           \
          ".size dlsym, . - dlsym\n"                                                                                   \
          ".popsection\n")

#endif
