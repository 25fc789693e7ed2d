/* Functions in method tables like those of C extensions, and words that look like such tables but are none. */
struct method {
  const char *name;
  void *function;
  int flags;
  const char *text;
};
#define APART static __attribute__((noinline, used))
APART int first(int x) { return x * 3; }
APART int second(int x) { return x * 5; }
APART int no_identifier(int x) { return x * 7; }
APART int no_flags(int x) { return x * 9; }
APART int no_name(int x) { return x * 11; }
struct method methods[] = {{"first_method", first, 1, "does it"}, {"second_method", second, 0x208, 0}, {0, 0, 0, 0}};
struct method others[] = {{"not an identifier", no_identifier, 1, 0}, {"none", no_flags, 0, 0}, {0, no_name, 1, 0}};
int main(void) { return first(1) + second(2); }
