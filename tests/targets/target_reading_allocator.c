// An allocator that does something while it holds its lock: target_reading_allocator read|clock|sleep.
//   read   it reads a file. glibc's does so once, when it first gives memory back
//          (/proc/sys/vm/overcommit_memory); this one does it every time
//   clock  it looks at the clock, as those do that give memory back after a time; most of that is the vdso
//   sleep  it sleeps, as those do that wait for a lock of their own
// A thread that is seen there may be the worst one to borrow.
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "report.h"

enum { kHeader = 16, kClasses = 48, kPool = 256 << 20 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Alignas(16) char pool[kPool];
static size_t used;
static void* unused[kClasses];  // of each power of two, a list
static int file = -1;
static enum { kNothing, kRead, kClock, kSleep } under_lock;

static void DoUnderLock(void) {
  char byte;
  struct timespec now;
  const struct timespec pause = {0, 1000000};
  if (under_lock == kRead) (void)!(lseek(file, 0, SEEK_SET), read(file, &byte, 1));
  for (int i = 0; under_lock == kClock && i < 1000; ++i) clock_gettime(CLOCK_MONOTONIC, &now);
  if (under_lock == kSleep) nanosleep(&pause, NULL);
}

static void* Take(size_t size) {
  int class = 5;
  while (((size_t)1 << class) < size + kHeader) ++class;
  pthread_mutex_lock(&lock);
  DoUnderLock();
  char* block = unused[class];
  if (block != NULL) {
    unused[class] = *(void**)(block + kHeader);
  } else if (used + ((size_t)1 << class) <= kPool) {
    block = pool + used;
    used += (size_t)1 << class;
  }
  pthread_mutex_unlock(&lock);
  if (block == NULL) return NULL;
  *(int*)block = class;
  return block + kHeader;
}

void* malloc(size_t size) { return Take(size); }

void free(void* pointer) {
  if (pointer == NULL) return;
  char* block = (char*)pointer - kHeader;
  pthread_mutex_lock(&lock);
  *(void**)pointer = unused[*(int*)block];
  unused[*(int*)block] = block;
  pthread_mutex_unlock(&lock);
}

void* calloc(size_t count, size_t size) {
  void* block = Take(count * size);
  return block == NULL ? NULL : memset(block, 0, count * size);
}

void* realloc(void* old, size_t size) {
  void* block = Take(size);
  if (old == NULL || block == NULL) return block;
  const size_t old_size = ((size_t)1 << *(int*)((char*)old - kHeader)) - kHeader;
  memcpy(block, old, old_size < size ? old_size : size);
  free(old);
  return block;
}

int posix_memalign(void** result, size_t alignment, size_t size) {
  if (alignment <= kHeader) return (*result = Take(size)) == NULL ? ENOMEM : 0;
  char* block = Take(size + alignment + kHeader);
  if (block == NULL) return ENOMEM;
  char* aligned = block + alignment - (uintptr_t)block % alignment;
  *(int*)(aligned - kHeader) = kClasses - 1;  // a list that nobody takes from
  *result = aligned;
  return 0;
}

void* aligned_alloc(size_t alignment, size_t size) {
  void* result = NULL;
  return posix_memalign(&result, alignment, size) == 0 ? result : NULL;
}

void* memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }

enum { kAllocations, kTurns };

static void* Allocate(void* slots) {
  for (;;) {
    void* volatile block = malloc(100);
    free(block);
    ++((volatile uint64_t*)slots)[kAllocations];
  }
  return NULL;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "read";
  volatile uint64_t* slots = ReportOpen();
  file = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  pthread_t thread;
  pthread_create(&thread, NULL, Allocate, (void*)slots);
  ReportReady("allocations turns");
  under_lock = how[0] == 'r' ? kRead : how[0] == 'c' ? kClock : kSleep;
  while (under_lock == kSleep) pause();  // only the thread that allocates is left to be borrowed
  for (;;) {
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
    ++slots[kTurns];
  }
}
