/* Two CUDA runtimes in one process, and a library that has a function of the same name: whose is called is what the loader
 * says. -DANSWER=N: a library whose function answers N. -DCLIENT: one that calls it. Else a program that opens what it is given, in
 * that order, binds nothing before it is called, and prints what each client is answered. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

int cudaDeviceSynchronize(void);

#ifdef ANSWER
int cudaDeviceSynchronize(void) { return ANSWER; }
#elif defined(CLIENT)
int client_ask(void) { return cudaDeviceSynchronize(); }
#else
int main(int count, char **paths) {
  for (int i = 1; i < count; i++) {
    int (*ask)(void) = (int (*)(void))dlsym(dlopen(paths[i], RTLD_LAZY | RTLD_LOCAL), "client_ask");
    if (ask) printf("%d\n", ask());
  }
}
#endif
