// Reads the clock in a tight loop and remembers the largest gap: how long this thread was held,
// as the target itself sees it. With an argument, that many more threads wait in a futex.
// The cycle counter is read directly: a stop inside libc would be no fair measurement.
#include <pthread.h>
#include <time.h>
#include <x86intrin.h>

#include "report.h"

static pthread_mutex_t never = PTHREAD_MUTEX_INITIALIZER;

static void* Wait(void* unused) {
  pthread_mutex_lock(&never);
  return unused;
}

static uint64_t NowNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int main(int argc, char** argv) {
  enum { kLoops, kGapNs };  // the tests set kGapNs to 0 before they measure
  volatile uint64_t* slots = ReportOpen();
  const int extra = argc > 1 ? atoi(argv[1]) : 0;
  pthread_mutex_lock(&never);
  for (int i = 0; i < extra; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, Wait, NULL) != 0) return 70;
  }
  const uint64_t start_ns = NowNs();
  const uint64_t start_ticks = __rdtsc();
  while (NowNs() - start_ns < 50000000u) {
  }
  const double ns_per_tick = (double)(NowNs() - start_ns) / (double)(__rdtsc() - start_ticks);
  ReportReady("loops gap_ns");
  uint64_t last = __rdtsc();
  for (;;) {
    const uint64_t now = __rdtsc();
    const uint64_t gap_ns = (uint64_t)((double)(now - last) * ns_per_tick);
    if (gap_ns > slots[kGapNs]) slots[kGapNs] = gap_ns;
    last = now;
    ++slots[kLoops];
  }
}
