// The rules of the preflight, on values: what was found in /proc decides, whatever machine this is.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string_view>

#include "inject/inject.h"

namespace probing::inject {

// What /proc/PID/task/TID/status says about a thread's seccomp filters.
struct Seccomp {
  int mode = 0;     // 0 none, 1 strict, 2 filter
  int filters = 0;  // 0 before Linux 5.9, which does not count them

  static Seccomp Parse(std::string_view status_text);
};

// A filter may kill for a system call it does not know. One that we live under ourselves, as all
// in a container do, has let us live; one that only the thread has is not worth the risk.
bool HasFilterOfItsOwn(const Seccomp& theirs, const Seccomp& ours);

// How many threads there are and how many have a filter of their own.
struct ThreadCount {
  int all = 0;
  int filtered = 0;
};

// A filter of the main thread is one of the job. Other threads that have one are not borrowed.
Check JudgeSeccomp(pid_t pid, const Seccomp& main_thread, const Seccomp& ours, const ThreadCount& threads);

// `scope` is Yama's ptrace_scope, 0 where there is none.
Check JudgeYama(pid_t pid, int scope, bool may_trace_anyone, bool is_descendant);

// `header` is the beginning of the program's file.
Check JudgeProgram(pid_t pid, std::span<const std::byte> header, bool shadow_stack);

}  // namespace probing::inject
