/* A program with an interpreter inside: runs Python, ends it, allocates, and starts it again. Twice in all. */
#include <stdio.h>
#include <stdlib.h>

void Py_Initialize(void);
int Py_FinalizeEx(void);
int PyRun_SimpleString(const char *code);
void *PyMem_RawMalloc(size_t size);
void PyMem_RawFree(void *block);

static void *volatile kept[2];

int main(void) {
  for (int turn = 0; turn < 2; turn++) {
    Py_Initialize();
    if (PyRun_SimpleString("kept = [bytes(3_000_017) for _ in range(5)]\nprint(len(kept), flush=True)")) return 1;
    if (Py_FinalizeEx() < 0) return 2;
    kept[turn] = malloc(1700021);
    void *volatile raw = PyMem_RawMalloc(1700023);
    PyMem_RawFree(raw);
  }
  puts("ended");
  return 0;
}
