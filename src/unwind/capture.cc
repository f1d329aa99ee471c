#include "unwind/capture.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "process/blocked_call.h"
#include "process/held_thread.h"
#include "process/traced_thread.h"
#include "process/urgent.h"

namespace probing::unwind {
namespace {

using process::Memory;

constexpr std::uint64_t kMaxStackBytes = 512 << 10;  // 0.1 ms; what is deeper is read afterwards

Error Runs() { return {Code::kNotFound, "the thread runs", ""}; }

// Up to the end of the mapping: what lies there is what the thread has on its stack.
Result<void> CopyStack(const Memory& memory, const process::Maps& maps, Capture& capture) {
  const std::uint64_t top = capture.registers.Get(kStackPointer);
  const process::Mapping* mapping = maps.Find(top);
  if (mapping == nullptr) return Error{Code::kFailed, "the stack pointer points to no mapped memory", ""};
  capture.stack_start = std::max(mapping->start, top - std::min(top, arch::kRedZoneBytes));
  capture.stack.resize(std::min(mapping->end - capture.stack_start, kMaxStackBytes));
  return memory.Read({capture.stack_start}, capture.stack);
}

}  // namespace

Registers FromKernel(const arch::Registers& from) {
  Registers to;
  const auto values = from.InDwarfOrder();
  for (std::size_t i = 0; i < values.size(); ++i) to.Set(i, values[i]);
  return to;
}

Result<Capture> CaptureResting(pid_t pid, pid_t tid, const Memory& memory, const process::Maps& maps,
                               const WhileStill& while_still) {
  const auto before = process::ReadTimesRun(pid, tid);
  if (!before) return Runs();  // a kernel that does not count
  ASSIGN_OR_RETURN(const process::BlockedCall call, process::ReadBlockedCall(pid, tid));
  Capture capture;
  capture.registers.Set(kStackPointer, call.stack_pointer);
  capture.registers.Set(kReturnAddress, call.instruction_pointer);
  capture.loses_time_when_held = call.number >= 0 && !process::SurvivesStop(pid, call);
  RETURN_IF_ERROR(CopyStack(memory, maps, capture));
  while_still();
  if (process::ReadTimesRun(pid, tid) != before) return Runs();
  return capture;
}

Result<Capture> CaptureHeld(pid_t tid, const Memory& memory, const process::Maps& maps,
                            const WhileStill& while_still, const Deadline& deadline) {
  Capture capture;
  const process::Urgent urgent;
  ASSIGN_OR_RETURN(auto thread, process::TracedThread::Seize(tid));
  RETURN_IF_ERROR(thread.Hold(deadline));
  const std::int64_t start_ns = MonotonicNs();
  ASSIGN_OR_RETURN(const arch::Registers registers, thread.ReadRegisters());
  capture.registers = FromKernel(registers);
  const auto copied = CopyStack(memory, maps, capture);
  while_still();
  RETURN_IF_ERROR(process::RepairInterruptedCall(thread, registers));
  RETURN_IF_ERROR(thread.Detach());
  capture.held_ns = MonotonicNs() - start_ns;
  if (!copied.ok()) return copied.error();
  return capture;
}

Result<void> CapturedMemory::Read(process::RemoteAddress from, std::span<std::byte> out) const {
  const std::uint64_t at = from.address - capture_->stack_start;
  if (at >= capture_->stack.size() || out.size() > capture_->stack.size() - at) return live_->Read(from, out);
  std::memcpy(out.data(), capture_->stack.data() + at, out.size());
  return {};
}

}  // namespace probing::unwind
