/* A dynamically linked 32-bit program that needs no library: says "seven" and ends with status 7. */
static int call(int number, int first, const void *second, int third) {
  int result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(second), "d"(third) : "memory");
  return result;
}

void _start(void) {
  static const char text[] = "seven\n";
  call(4, 1, text, 6);
  call(1, 7, 0, 0);
}
