/* What the machine code of a function tells: functions with code and unwind tables as compilers write them. */
#include "shared/interpreter/loop.h"

#include <link.h>
#include <sys/mman.h>

#include "tests/check.h"

static const struct interpreter_place here = {dl_iterate_phdr, 0};

#define JUMP_IF(code, to) ".byte 0x0f, " #code "; .long " #to " - . - 4\n"
#define JUMP(to) ".byte 0xe9; .long " #to " - . - 4\n"
#define CALL(to) ".byte 0xe8; .long " #to " - . - 4\n"
#define FUNCTION(name, code) ".balign 16\n" #name ": .cfi_startproc\n" code "ret\n.cfi_endproc\nend_of_" #name ":\n"

/* `loop` jumps into `part`, and to the start of `tail`, which it calls at its end. `copy` and `far` refer to `type_call`;
 * `other` does not; `apart` does, but is not called. */
__asm__(".text\n" FUNCTION(loop, JUMP_IF(0x84, part) JUMP_IF(0x85, part + 4) JUMP(part + 4) CALL(copy) CALL(other)
                                     CALL(copy) JUMP(tail) JUMP(tail) JUMP(tail) JUMP(tail) JUMP(tail))
            FUNCTION(whole, JUMP_IF(0x84, part) JUMP(tail) JUMP(tail) JUMP(tail) JUMP(tail) CALL(other))
                FUNCTION(part, "nop; nop; nop; nop; nop\n" CALL(far) JUMP(loop + 6)) FUNCTION(tail, "nop; nop\n")
                    FUNCTION(type_call, "nop\n") FUNCTION(copy, "lea type_call(%rip), %rax\n" CALL(other))
                        FUNCTION(far, "nop; lea type_call(%rip), %rcx\n") FUNCTION(other, "nop; nop; nop\n")
                            FUNCTION(apart, "lea type_call(%rip), %rax\n")
                                FUNCTION(making, CALL(other) "lea far(%rip), %rcx\n" JUMP_IF(0x84, tail) CALL(other))
                                    FUNCTION(making_two, "lea far(%rip), %rcx; lea tail(%rip), %rax\n")
                                        FUNCTION(making_inside, "lea far + 1(%rip), %rcx\n" JUMP(tail)));
extern const char loop[], end_of_loop[], whole[], end_of_whole[], part[], end_of_part[], type_call[], copy[],
    end_of_copy[], far[], tail[], other[], making[], end_of_making[], making_two[], end_of_making_two[],
    making_inside[], end_of_making_inside[];

#define RANGE(name) ((struct code_range){(uintptr_t)name, (uintptr_t)end_of_##name})

/* A range that is found ends where the next function begins. */
static bool is_function(const struct code_range *found, const char *start, const char *end) {
  return found->start == (uintptr_t)start && found->end >= (uintptr_t)end && found->end < (uintptr_t)end + 16;
}

static void the_part_is_where_the_loop_jumps_into_another_function(void) {
  struct code_range found;
  check(loop_part_find(&here, RANGE(loop), &found));
  check(is_function(&found, part, end_of_part));
}

static void a_function_that_is_whole_has_no_part(void) {
  struct code_range found;
  check(!loop_part_find(&here, RANGE(whole), &found));
  check(!loop_part_find(&here, (struct code_range){0, 0}, &found));
  check(!loop_part_find(&here, (struct code_range){(uintptr_t)loop, (uintptr_t)loop + 4}, &found));
  check(!loop_part_find(&here, (struct code_range){(uintptr_t)&found, (uintptr_t)&found + 64}, &found)); /* no code */
}

static void callers_are_called_by_name_and_refer_to_the_function(void) {
  struct code_range found[4];
  const struct code_range both[2] = {RANGE(loop), RANGE(part)}, one[2] = {RANGE(loop), {0, 0}};
  check(loop_find_callers(&here, both, (uintptr_t)type_call, found, 4) == 2);
  check(is_function(&found[0], copy, end_of_copy) && found[1].start == (uintptr_t)far);
  check(loop_find_callers(&here, one, (uintptr_t)type_call, found, 4) == 1);
  check(loop_find_callers(&here, both, (uintptr_t)type_call, found, 1) == 1);
  check(loop_find_callers(&here, both, (uintptr_t)tail, found, 4) == 0);
  check(loop_find_callers(&here, both, 0, found, 4) == 0);
  check(loop_refers(&here, RANGE(copy), (uintptr_t)type_call) &&
        !loop_refers(&here, RANGE(part), (uintptr_t)type_call));
  check(!loop_refers(&here, RANGE(copy), 0) && !loop_refers(&here, (struct code_range){0, 0}, (uintptr_t)type_call));
}

static void stored_functions_are_those_that_are_named_without_a_jump(void) {
  uintptr_t out[2] = {0, 0};
  check(loop_find_stored(&here, RANGE(making), out, 2) == 1 && out[0] == (uintptr_t)far);
  check(loop_find_stored(&here, RANGE(making_two), out, 2) == 2 && out[0] == (uintptr_t)far &&
        out[1] == (uintptr_t)tail);
  check(loop_find_stored(&here, RANGE(making_two), out, 1) == 0);
  check(loop_find_stored(&here, RANGE(making_inside), out, 2) == 0);
  check(loop_find_stored(&here, (struct code_range){0, 0}, out, 2) == 0);
}

static void functions_are_found_by_their_start(void) {
  struct code_range function;
  check(loop_function_at(&here, RANGE(loop), (uintptr_t)far, &function));
  check(function.start == (uintptr_t)far && function.end > (uintptr_t)far);
  check(!loop_function_at(&here, RANGE(loop), (uintptr_t)far + 1, &function));
  check(!loop_function_at(&here, RANGE(loop), 0, &function));
}

/* Moves the unwind tables of the program by so many bytes, in its program headers. */
static int move_tables(struct dl_phdr_info *info, size_t size, void *distance) {
  (void)size;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    ElfW(Phdr) *segment = (ElfW(Phdr) *)&info->dlpi_phdr[i];
    if (segment->p_type != PT_GNU_EH_FRAME) continue;
    void *page = (void *)((uintptr_t)segment & ~(uintptr_t)4095);
    check(!mprotect(page, 4096, PROT_READ | PROT_WRITE));
    segment->p_vaddr += *(ElfW(Addr) *)distance;
  }
  return 1;
}

static void tables_that_are_not_in_memory_are_ignored(void) {
  struct code_range found;
  ElfW(Addr) distance = 1ul << 40;
  check(dl_iterate_phdr(move_tables, &distance));
  check(!loop_part_find(&here, RANGE(loop), &found));
  distance = -distance;
  check(dl_iterate_phdr(move_tables, &distance));
  check(loop_part_find(&here, RANGE(loop), &found));
}

int main(void) {
  the_part_is_where_the_loop_jumps_into_another_function();
  a_function_that_is_whole_has_no_part();
  callers_are_called_by_name_and_refer_to_the_function();
  stored_functions_are_those_that_are_named_without_a_jump();
  functions_are_found_by_their_start();
  tables_that_are_not_in_memory_are_ignored();
  return 0;
}
