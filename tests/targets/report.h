// How a C target talks to the tests; the same contract as report.py.
#pragma once

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kReportBytes = 64 * 8 };

// Counters in a file shared with the tests; one 64-bit slot per name of the ready line.
static inline volatile uint64_t* ReportOpen(void) {
  const char* path = getenv("TARGET_REPORT");
  const int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
  const int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* slots = mmap(NULL, kReportBytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (slots == MAP_FAILED) exit(70);
  if (fd >= 0) close(fd);
  return slots;
}

static inline void ReportReady(const char* names) {
  printf("ready %s\n", names);
  fflush(stdout);
}
