/* Tests slots.c: entries of a table in this program's data are found by their contents, and only if nothing contradicts. */
#include "shared/interpreter/slots.h"

#include "tests/check.h"

static const struct interpreter_place here = {dl_iterate_phdr, 0};

struct wrapper {
  const char *name;
  int offset;
  void *function;
  void *wrapper;
  const char *doc;
  int flags;
};

static int functions[8]; /* only their addresses matter */
static volatile struct wrapper table[] = {
    {"__repr__", 88, &functions[0], NULL, "", 0},           {"__call__", TP_CALL, &functions[1], NULL, "", 0},
    {"__init__", TP_INIT, &functions[2], NULL, "", 0},      {"__new__", TP_NEW, &functions[3], NULL, "", 0},
    {"__init_subclass__", 8, &functions[4], NULL, "", 0},   {(const char *)8, TP_NEW, &functions[5], NULL, "", 0},
    {(const char *)-8, TP_INIT, &functions[6], NULL, "", 0}};
int main(void);
static bool find(struct python_slots *found) { return slots_find(&here, (uintptr_t)&main, found); }

int main(void) {
  struct python_slots found;
  check(find(&found));
  check(found.call == (uintptr_t)&functions[1] && found.init == (uintptr_t)&functions[2]);
  check(found.new == (uintptr_t)&functions[3]);
  table[0] = table[1]; /* the same once more */
  check(find(&found) && found.call == (uintptr_t)&functions[1]);
  table[0].function = &functions[7]; /* two entries that differ */
  check(!find(&found) && !found.call && found.init);
  table[0].offset = 88;
  check(find(&found));
  table[2].name = "__iter__";
  check(!find(&found) && !found.init && found.new == (uintptr_t)&functions[3]);
  int on_stack = 0;
  check(!slots_find(&here, (uintptr_t)&on_stack, &found) && !found.call);
  check(!slots_find(&here, (uintptr_t)&puts, &found)); /* another image */
  check(!slots_find(&here, 0, &found) && !slots_find(&here, ~(uintptr_t)0, &found));
  puts("ok");
  return 0;
}
