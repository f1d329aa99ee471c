// Waits in one system call again and again, without SA_RESTART or a retry to hide anything, and
// counts each EINTR and each wait that ended too early: target_blocked read|nanosleep|futex|epoll|poll|recv.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "report.h"

enum { kWaitMs = 100 };

static int pipe_ends[2];
static int socket_ends[2];
static int epoll_fd;
static uint32_t futex_word;

static uint64_t NowMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

// Each returns what the call returned; it should take kWaitMs.
static long WaitOnce(const char* how) {
  struct timespec duration = {0, kWaitMs * 1000000L};
  struct epoll_event event;
  struct pollfd readable = {pipe_ends[0], POLLIN, 0};
  char byte;
  if (strcmp(how, "nanosleep") == 0) return syscall(SYS_nanosleep, &duration, NULL);
  if (strcmp(how, "futex") == 0) return syscall(SYS_futex, &futex_word, FUTEX_WAIT, 0, &duration, NULL, 0);
  if (strcmp(how, "epoll") == 0) return epoll_wait(epoll_fd, &event, 1, kWaitMs);
  if (strcmp(how, "poll") == 0) return poll(&readable, 1, kWaitMs);
  if (strcmp(how, "recv") == 0) return recv(socket_ends[0], &byte, 1, 0);  // SO_RCVTIMEO
  return read(pipe_ends[0], &byte, 1);                                     // a child writes every kWaitMs
}

static void WriteForEver(void) {
  for (;;) {
    struct timespec duration = {0, kWaitMs * 1000000L};
    nanosleep(&duration, NULL);
    if (write(pipe_ends[1], "x", 1) != 1) _exit(0);
  }
}

int main(int argc, char** argv) {
  enum { kLoops, kEintr, kEarly, kOther };
  volatile uint64_t* slots = ReportOpen();
  const char* how = argc > 1 ? argv[1] : "read";
  const struct timeval timeout = {0, kWaitMs * 1000};
  if (pipe(pipe_ends) != 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, socket_ends) != 0) return 70;
  setsockopt(socket_ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  if (strcmp(how, "read") == 0) {
    if (fork() == 0) {
      close(pipe_ends[0]);
      WriteForEver();
    }
    close(pipe_ends[1]);
  }
  epoll_fd = epoll_create1(0);
  struct epoll_event interest = {EPOLLIN, {0}};
  epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pipe_ends[0], &interest);
  ReportReady("loops eintr early other");
  for (;;) {
    const uint64_t start_ms = NowMs();
    errno = 0;
    const long result = WaitOnce(how);
    const uint64_t took_ms = NowMs() - start_ms;
    if (result < 0 && errno == EINTR) {
      ++slots[kEintr];
    } else if (result < 0 && errno != ETIMEDOUT && errno != EAGAIN) {
      ++slots[kOther];
    } else if (took_ms + 20 < kWaitMs && strcmp(how, "read") != 0) {
      ++slots[kEarly];
    }
    ++slots[kLoops];
  }
}
