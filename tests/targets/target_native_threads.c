// No Python: one thread waits on a condition, one computes, the main one sleeps.
#include <pthread.h>

#include "report.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static volatile uint64_t* loops;

__attribute__((noinline)) void wait_for_ever(void) {
  pthread_mutex_lock(&mutex);
  for (;;) pthread_cond_wait(&never, &mutex);
}

__attribute__((noinline)) void compute(void) {
  for (;;) loops[0] = loops[0] + 1;
}

__attribute__((noinline)) void sleep_long(void) {
  for (;;) pause();
}

static void* waiting_thread(void* unused) {
  wait_for_ever();
  return unused;
}

static void* computing_thread(void* unused) {
  compute();
  return unused;
}

int main(void) {
  pthread_t threads[2];
  loops = ReportOpen();
  pthread_create(&threads[0], NULL, waiting_thread, NULL);
  pthread_create(&threads[1], NULL, computing_thread, NULL);
  ReportReady("loops");
  sleep_long();
}
