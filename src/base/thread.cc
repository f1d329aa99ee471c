#include "base/thread.h"

#include <sched.h>
#include <signal.h>

#include <cerrno>

namespace probing {

Result<pthread_t> StartQuietThread(void* (*body)(void*), void* argument, std::size_t stack_bytes,
                                   const char* name) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  // Ordinary scheduling on any CPU the job may use, even if the creator is pinned or real-time.
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  cpu_set_t all;
  CPU_ZERO(&all);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &all);
  pthread_attr_setaffinity_np(&attributes, sizeof(all), &all);

  // A thread inherits its creator's mask at birth; there must be no moment without it.
  sigset_t every, before;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before);
  pthread_t thread{};
  int error = pthread_create(&thread, &attributes, body, argument);
  if (error == EPERM) {  // SCHED_IDLE, of a user who may not leave it
    pthread_attr_setinheritsched(&attributes, PTHREAD_INHERIT_SCHED);
    error = pthread_create(&thread, &attributes, body, argument);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) return ErrnoError("start a thread", error);
  pthread_setname_np(thread, name);
  return thread;
}

}  // namespace probing
