// Threads that do nothing but malloc, dlopen and pthread_create, in plain C: nearly every moment
// is a bad one to be entered. Memory is filled and checked, so that a damaged heap shows.
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "report.h"

static volatile uint64_t* slots;
enum { kAllocations, kLoads, kThreads, kWrong };

static void* Allocate(void* seed) {
  enum { kBlocks = 64 };
  unsigned char* blocks[kBlocks] = {0};
  size_t sizes[kBlocks] = {0};
  uint32_t random = (uint32_t)(uintptr_t)seed;
  for (;;) {
    random = random * 1664525u + 1013904223u;
    const unsigned i = (random >> 16) % kBlocks;
    if (blocks[i] != NULL) {
      if (blocks[i][0] != (unsigned char)i || blocks[i][sizes[i] - 1] != (unsigned char)i) ++slots[kWrong];
      free(blocks[i]);
    }
    sizes[i] = 1 + (random >> 8) % ((random & 7) == 0 ? 300000 : 2000);
    blocks[i] = malloc(sizes[i]);
    memset(blocks[i], (int)i, sizes[i]);
    ++slots[kAllocations];
  }
  return NULL;
}

static void* Load(void* name) {
  for (;;) {
    void* library = dlopen(name, RTLD_NOW);
    if (library != NULL) dlclose(library);
    ++slots[kLoads];
  }
  return NULL;
}

static void* Nothing(void* unused) { return unused; }

static void* Spawn(void* unused) {
  for (;;) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, Nothing, NULL) == 0) pthread_join(thread, NULL);
    ++slots[kThreads];
  }
  return unused;
}

int main(void) {
  slots = ReportOpen();
  pthread_t thread;
  pthread_create(&thread, NULL, Allocate, (void*)2);
  pthread_create(&thread, NULL, Load, "libutil.so.1");
  pthread_create(&thread, NULL, Spawn, NULL);
  ReportReady("allocations loads threads wrong");
  Allocate((void*)1);
}
