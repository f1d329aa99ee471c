// Makes threads slow to notice that a lock of the interpreter is free, as on a machine that is overloaded:
// all but the main thread look every 30 ms. A lock that is destroyed while a thread waits for it ends the
// process with 99.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <stddef.h>
#include <unistd.h>

static _Atomic(sem_t*) awaited;  // by one thread at a time: the probe has one that runs Python code

int sem_wait(sem_t* lock) {
  static int (*original)(sem_t*);
  if (original == NULL) original = dlsym(RTLD_NEXT, "sem_wait");
  if (gettid() == getpid()) return original(lock);
  awaited = lock;
  while (sem_trywait(lock) != 0) usleep(30000);
  awaited = NULL;
  return 0;
}

int sem_destroy(sem_t* lock) {
  if (awaited == lock) _exit(99);
  return 0;
}
