/* poll() as a libc with frame pointers has it: the frame is found by rbp, which nobody else saves. The test names the
 * library as a part of libc. */
#include <string.h>
#include <sys/syscall.h>

__attribute__((noinline)) int wrapped_poll(void *none, unsigned long count, int ms) {
  volatile char room[ms % 100 + 64]; /* so that the stack pointer says nothing about the frame */
  long result;
  memset((char *)room, 1, sizeof room);
  __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_poll), "D"(none), "S"(count), "d"((long)ms) : "rcx", "r11", "memory");
  return (int)result + room[0];
}
