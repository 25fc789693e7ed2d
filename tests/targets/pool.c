/* A library with threads of its own, as BLAS has: pool_run() has all of them work, and the caller too. Built with
 * OpenMP, its threads are OpenMP's. */
#include <pthread.h>

static volatile double results[64];

void grind(long number, long rounds) {
  double x = number;
  for (long i = 0; i < rounds; i++) x = x * 0.999 + 0.5;
  results[number] = x;
}

#ifdef _OPENMP
#include <omp.h>

int pool_start(int count) {
  omp_set_num_threads(count + 1);
  return 0;
}

void pool_run(long rounds) {
#pragma omp parallel
  grind(omp_get_thread_num(), rounds);
}
#else
static pthread_barrier_t begin, end;
static long asked;

static void *helper(void *number) {
  for (;;) {
    pthread_barrier_wait(&begin);
    grind((long)number, asked);
    pthread_barrier_wait(&end);
  }
}

int pool_start(int count) {
  pthread_barrier_init(&begin, 0, count + 1);
  pthread_barrier_init(&end, 0, count + 1);
  for (long number = 1; number <= count; number++) {
    pthread_t thread;
    if (pthread_create(&thread, 0, helper, (void *)number)) return 1;
  }
  return 0;
}

void pool_run(long rounds) {
  asked = rounds;
  pthread_barrier_wait(&begin);
  grind(0, rounds);
  pthread_barrier_wait(&end);
}
#endif
