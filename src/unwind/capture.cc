#include "unwind/capture.h"

#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string>

#include "base/file.h"
#include "process/interrupted_call.h"
#include "process/traced_thread.h"
#include "process/urgent.h"

namespace probing::unwind {
namespace {

using process::Memory;

constexpr std::uint64_t kRedZoneBytes = 128;         // below rsp, used by functions that call nobody
constexpr std::uint64_t kMaxStackBytes = 512 << 10;  // 0.1 ms; what is deeper is read afterwards

Error Runs() { return {Code::kNotFound, "the thread runs", ""}; }

// Up to the end of the mapping: what lies there is what the thread has on its stack.
Result<void> CopyStack(const Memory& memory, const process::Maps& maps, Capture& capture) {
  const std::uint64_t top = capture.registers.Get(kRsp);
  const process::Mapping* mapping = maps.Find(top);
  if (mapping == nullptr) return Error{Code::kFailed, "the stack pointer points to no mapped memory", ""};
  capture.stack_start = std::max(mapping->start, top - std::min(top, kRedZoneBytes));
  capture.stack.resize(std::min(mapping->end - capture.stack_start, kMaxStackBytes));
  return memory.Read({capture.stack_start}, capture.stack);
}

struct Resting {
  std::int64_t call = -1;  // none: it was stopped, or waits for a page
  std::array<std::uint64_t, 6> arguments{};
  std::uint64_t rsp = 0;
  std::uint64_t rip = 0;
};

bool TakeNumber(std::string_view& text, int base, auto& value) {
  const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
  std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (base == 16 && word.starts_with("0x")) word.remove_prefix(2);
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  return !word.empty() && error == std::errc() && stop == word.data() + word.size();
}

// "232 0x4 0x7f… (six arguments) rsp rip", "-1 rsp rip", or "running".
Result<Resting> ParseSyscall(std::string_view text) {
  Resting resting;
  if (!TakeNumber(text, 10, resting.call)) return Runs();
  if (resting.call >= 0) {
    for (std::uint64_t& argument : resting.arguments) {
      if (!TakeNumber(text, 16, argument)) return Runs();
    }
  }
  if (!TakeNumber(text, 16, resting.rsp) || !TakeNumber(text, 16, resting.rip) || resting.rsp == 0)
    return Runs();
  return resting;
}

bool LosesTimeWhenHeld(const Resting& resting) {
  if (resting.call != SYS_epoll_wait && resting.call != SYS_epoll_pwait) return false;
  return static_cast<std::int32_t>(resting.arguments[3]) > 0;
}

// epoll_wait and others report EINTR for a mere stop: they are made again, unless a signal is
// about to arrive that they should report.
Result<void> RepairCall(const process::TracedThread& thread, user_regs_struct registers) {
  if (!process::WasInterrupted(registers) || static_cast<std::int64_t>(registers.rax) != -EINTR) return {};
  ASSIGN_OR_RETURN(const bool signal_comes, thread.HasDeliverableSignal());
  if (signal_comes) return {};
  process::RestartInterruptedCall(registers);
  return thread.WriteRegisters(registers);
}

}  // namespace

Registers FromKernel(const user_regs_struct& from) {
  Registers to;
  const std::array<std::uint64_t, kRegisterCount> values = {
      from.rax, from.rdx, from.rcx, from.rbx, from.rsi, from.rdi, from.rbp, from.rsp, from.r8,
      from.r9,  from.r10, from.r11, from.r12, from.r13, from.r14, from.r15, from.rip};
  for (std::size_t i = 0; i < kRegisterCount; ++i) to.Set(i, values[i]);
  return to;
}

Result<Capture> CaptureResting(pid_t pid, pid_t tid, const Memory& memory, const process::Maps& maps,
                               const WhileStill& while_still) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/";
  const auto before = ReadFile(folder + "schedstat");
  if (!before.ok() || before->starts_with("0 0 0")) return Runs();  // a kernel that does not count
  const auto text = ReadFile(folder + "syscall");
  if (!text.ok()) return Runs();
  ASSIGN_OR_RETURN(const Resting resting, ParseSyscall(*text));
  Capture capture;
  capture.registers.Set(kRsp, resting.rsp);
  capture.registers.Set(kReturnAddress, resting.rip);
  capture.loses_time_when_held = LosesTimeWhenHeld(resting);
  RETURN_IF_ERROR(CopyStack(memory, maps, capture));
  while_still();
  const auto after = ReadFile(folder + "schedstat");
  if (!after.ok() || *after != *before) return Runs();
  return capture;
}

Result<Capture> CaptureHeld(pid_t tid, const Memory& memory, const process::Maps& maps,
                            const WhileStill& while_still, const Deadline& deadline) {
  Capture capture;
  const process::Urgent urgent;
  ASSIGN_OR_RETURN(auto thread, process::TracedThread::Seize(tid));
  RETURN_IF_ERROR(thread.Hold(deadline));
  const std::int64_t start_ns = MonotonicNs();
  ASSIGN_OR_RETURN(const user_regs_struct registers, thread.ReadRegisters());
  capture.registers = FromKernel(registers);
  const auto copied = CopyStack(memory, maps, capture);
  while_still();
  RETURN_IF_ERROR(RepairCall(thread, registers));
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
