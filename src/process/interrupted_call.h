// How a system call goes on that a stop has interrupted.
#pragma once

#include <cstdint>

#include "arch/registers.h"

namespace probing::process {

// The kernel's own result of a call which it will restart with the time that was left, when the
// thread runs on undisturbed (include/linux/errno.h).
inline constexpr std::int64_t kRestartBlock = -516;

// True when a stop has ended the system call and the kernel would restart it, or would report EINTR
// for it: epoll_wait and sockets with a time-out do that for a mere stop, although nobody sent a
// signal.
bool WasInterrupted(const arch::Registers& registers);

// Sets the registers of such a thread back to before the call, so that it is made again. Changes
// nothing when the thread was in no call, or in one that was not interrupted.
void RestartInterruptedCall(arch::Registers& registers);

}  // namespace probing::process
