// The system call in which a thread sleeps, as /proc tells without stopping it, and what a stop would do to
// it.
//
// A stop ends every wait. The kernel goes on with most of them as if nothing had been; some it begins anew
// with their whole time-out (epoll_wait, sockets with SO_RCVTIMEO, semtimedop…). Threads in those are
// better left asleep: what a sleeping thread has on its stack does not change.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::process {

struct BlockedCall {
  std::int64_t number = -1;  // −1: it sleeps outside of a call, e.g. for a page
  std::array<std::uint64_t, 6> arguments{};
  std::uint64_t stack_pointer = 0;
  std::uint64_t instruction_pointer = 0;
};

// kNotFound: the thread runs, is gone, or may not be looked at.
Result<BlockedCall> ReadBlockedCall(pid_t pid, pid_t tid, const std::string& proc_root = "/proc");
Result<BlockedCall> ParseBlockedCall(std::string_view text);  // what that file says

// How often the thread was put on a CPU. As long as this does not change, a thread that was seen asleep has
// not executed an instruction. Nothing where the kernel does not count.
std::optional<std::uint64_t> ReadTimesRun(pid_t pid, pid_t tid, const std::string& proc_root = "/proc");

// Whether a stop leaves the call as it was: it goes on with the time that is left. False for all calls of
// which that is not known.
bool SurvivesStop(pid_t pid, const BlockedCall& call, const std::string& proc_root = "/proc");

// For how long a sleeping thread has not run, by the scheduler's clock of its CPU: never too long, and too
// short by the time that CPU spent on interrupts. Takes some 0.1 ms. Nothing where the kernel does
// not tell, or when that CPU is not ours to use.
std::optional<std::int64_t> AsleepForNs(pid_t pid, pid_t tid);

}  // namespace probing::process
