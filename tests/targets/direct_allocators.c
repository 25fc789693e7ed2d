/* A program with an interpreter inside that asks for Python's allocators, before it starts or after, and calls their
 * functions with pymalloc's context, which is null. Programs that Nuitka compiles do so. */
#include <stdio.h>
#include <string.h>

struct allocator {
  void *context;
  void *(*malloc)(void *context, size_t size);
  void *(*calloc)(void *context, size_t count, size_t size);
  void *(*realloc)(void *context, void *block, size_t size);
  void (*free)(void *context, void *block);
};
enum { MEM = 1, OBJ = 2, BLOCKS = 1000 };

void Py_Initialize(void);
int Py_FinalizeEx(void);
void *PyObject_Malloc(size_t size);
void PyObject_Free(void *block);
void PyMem_GetAllocator(int domain, struct allocator *out);

int PyRun_SimpleStringFlags(const char *code, void *flags);

static void *kept[3][BLOCKS];
static void *(*volatile saved)(void *context, size_t size);

/* Keeps a pointer, goes on when it is told, and gives the recorder time to notice. */
static void go_on_later(const struct allocator *obj) {
  saved = obj->malloc;
  PyRun_SimpleStringFlags("import sys, time; print('ready', flush=True); sys.stdin.readline()\n"
                          "end = time.thread_time() + 0.5\nwhile time.thread_time() < end: str(end)",
                          NULL);
}

int main(int argc, char **argv) {
  struct allocator mem, obj;
  int is_late = argc > 1 && !strcmp(argv[1], "late");
  int is_again = argc > 1 && !strcmp(argv[1], "again");
  if (is_late || is_again) Py_Initialize();
  PyMem_GetAllocator(MEM, &mem);
  PyMem_GetAllocator(OBJ, &obj);
  if (is_again) Py_FinalizeEx();
  if (!is_late) Py_Initialize();
  if (argc > 1 && !strcmp(argv[1], "resumed")) go_on_later(&obj);
  for (int i = 0; i < BLOCKS; i++) {
    kept[0][i] = memset(obj.malloc(NULL, 403), 'a', 403);
    kept[1][i] = mem.calloc(NULL, 1, 433);
    kept[2][i] = mem.realloc(NULL, memset(mem.malloc(NULL, 27), 'b', 27), 467);
    mem.free(NULL, memset(mem.malloc(NULL, 3001), 'c', 3001)); /* not from a pool */
  }
  int wrong = 0;
  for (int i = 0; i < BLOCKS; i++) {
    wrong += ((char *)kept[0][i])[402] != 'a' || ((char *)kept[1][i])[432] || ((char *)kept[2][i])[26] != 'b';
    PyObject_Free(kept[0][i]);
    mem.free(NULL, kept[1][i]);
    obj.free(NULL, kept[2][i]);
  }
  printf("%d wrong\n", wrong);
  return Py_FinalizeEx() < 0;
}
