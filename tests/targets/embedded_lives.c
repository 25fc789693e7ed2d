/* A program with an interpreter inside that it starts and ends three times. Each life frees ten blocks before its end,
 * and has five at its end. */
#include <stdio.h>

void Py_Initialize(void);
int Py_FinalizeEx(void);
int PyRun_SimpleString(const char *code);

static const char *life = "freed = [bytes(3_000_017) for _ in range(10)]\n"
                          "kept = [bytes(3_100_017) for _ in range(5)]\n"
                          "del freed\n"
                          "print('life', flush=True)\n";

int main(void) {
  for (int turn = 0; turn < 3; turn++) {
    Py_Initialize();
    if (PyRun_SimpleString(life)) return 1;
    if (Py_FinalizeEx() < 0) return 2;
  }
  return 0;
}
