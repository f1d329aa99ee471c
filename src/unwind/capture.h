// What a thread's stack is unwound from: its registers and a copy of its stack, of one moment.
//
// A thread that sleeps or is stopped is left alone: /proc has its stack and instruction pointer, and that it
// did not run meanwhile is seen in its scheduler statistics. Only where more registers are needed, or where
// it runs, it is held by ptrace, for some tens of microseconds.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "arch/registers.h"
#include "base/clock.h"
#include "process/maps.h"
#include "process/memory.h"
#include "unwind/registers.h"

namespace probing::unwind {

struct Capture {
  Registers registers;
  std::uint64_t stack_start = 0;
  std::vector<std::byte> stack;
  std::int64_t held_ns = 0;  // from when we learnt that it had stopped
  // It waits in a call which may wait anew, with all of its time, after a stop: hands off.
  bool loses_time_when_held = false;
};

// All of them, of a thread that does not run.
Registers FromKernel(const arch::Registers& registers);

// Runs while the thread stands still, to read what must be of the same moment.
using WhileStill = std::function<void()>;

// kNotFound: it runs, or ran meanwhile, or the kernel does not tell. All
// registers but the stack and the instruction pointer are unknown.
Result<Capture> CaptureResting(pid_t pid, pid_t tid, const process::Memory& memory, const process::Maps& maps,
                               const WhileStill& while_still);

// kTimeout: it cannot be held (D state). kPermission: somebody else traces it, or we may not.
Result<Capture> CaptureHeld(pid_t tid, const process::Memory& memory, const process::Maps& maps,
                            const WhileStill& while_still, const Deadline& deadline);

// The copy where there is one, the process elsewhere: an alternative signal stack, or a stack that
// is deeper than what was copied. Lifetime: both must outlive it.
class CapturedMemory final : public process::Memory {
 public:
  CapturedMemory(const Capture& capture, const process::Memory& live) : capture_(&capture), live_(&live) {}
  Result<void> Read(process::RemoteAddress from, std::span<std::byte> out) const override;

 private:
  const Capture* capture_;
  const process::Memory* live_;
};

}  // namespace probing::unwind
