#include "arch/registers.h"

#include <linux/futex.h>
#include <time.h>

#include <cerrno>

namespace probing::arch {
namespace {

constexpr std::size_t kCallNumber = 8;  // x8
constexpr std::size_t kLink = 30;
constexpr std::uint64_t kBranchType = 3U << 10U;   // PSTATE.BTYPE: which branch has just been made
constexpr std::uint64_t kTagCheckOff = 1U << 25U;  // PSTATE.TCO
// The kernel's internal results of a call that it restarts (include/linux/errno.h).
constexpr std::int64_t kRestartSys = -512;
constexpr std::int64_t kRestartNoHandler = -514;
constexpr std::int64_t kRestartBlock = -516;

// Calls that the kernel restarts with the time that was left (restart_syscall).
bool KernelKnowsTimeLeft(const WaitedCall& call) {
  switch (call.number) {
    case SYS_nanosleep:
      return true;
    case SYS_clock_nanosleep:
      return (call.arguments[1] & TIMER_ABSTIME) == 0;
    case SYS_futex:
      return (call.arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT && call.arguments[3] != 0;
    default:
      return false;
  }
}

bool IsRestart(std::int64_t result) {
  return (result <= kRestartSys && result >= kRestartNoHandler) || result == kRestartBlock;
}

}  // namespace

std::uint64_t Registers::ip() const { return native_.general.pc; }
void Registers::set_ip(std::uint64_t address) { native_.general.pc = address; }
std::uint64_t Registers::sp() const { return native_.general.sp; }
void Registers::set_sp(std::uint64_t address) { native_.general.sp = address; }
std::uint64_t Registers::thread_pointer() const { return native_.thread_pointer; }

std::int64_t Registers::result() const { return static_cast<std::int64_t>(native_.general.regs[0]); }
void Registers::set_result(std::int64_t value) {
  native_.general.regs[0] = static_cast<std::uint64_t>(value);
}

void Registers::EnterFunction(std::uint64_t code, std::uint64_t sp, std::uint64_t returns_to) {
  native_.general.pc = code;
  native_.general.sp = sp;
  native_.general.regs[kLink] = returns_to;
  native_.general.pstate &= ~(kBranchType | kTagCheckOff);
  set_syscall(-1);
}

void Registers::set_argument(std::size_t index, std::uint64_t value) { native_.general.regs[index] = value; }

std::int64_t Registers::syscall() const { return native_.call; }
void Registers::set_syscall(std::int64_t number) { native_.call = number; }

std::uint64_t Registers::syscall_argument(std::size_t index) const {
  return index == 0 && native_.call >= 0 ? native_.first_argument : native_.general.regs[index];
}

void Registers::set_syscall_argument(std::size_t index, std::uint64_t value) {
  if (index == 0 && native_.call >= 0)
    native_.first_argument = value;
  else
    native_.general.regs[index] = value;
}

std::int64_t Registers::next_syscall() const {
  return static_cast<std::int64_t>(native_.general.regs[kCallNumber]);
}

void Registers::set_next_syscall(std::int64_t number) {
  native_.general.regs[kCallNumber] = static_cast<std::uint64_t>(number);
}

void Registers::RepeatSyscall() {
  native_.general.pc -= kSyscallInstruction.size();
  set_next_syscall(native_.call);
  native_.general.regs[0] = native_.first_argument;
  native_.call = -1;
}

std::array<RegisterPart, kRegisterParts> Registers::Parts() {
  const auto bytes = [](auto& value) { return std::as_writable_bytes(std::span(&value, 1)); };
  return {{{NT_PRSTATUS, bytes(native_.general), true},
           {NT_ARM_SYSTEM_CALL, bytes(native_.kernel_call), true},
           {NT_ARM_TLS, bytes(native_.thread_pointer), false}}};
}

// At the entry and the exit of a call the kernel still knows it. At any other stop it has set the thread
// back, unless the call reports EINTR; the number and all arguments but the first are where the program put
// them.
void Registers::Recognise(const WaitedCall& waited) {
  native_.call = native_.kernel_call;
  if (native_.call >= 0) {
    native_.first_argument = native_.general.regs[0];
    return;
  }
  if (waited.number < 0 || waited.sp != sp() || waited.number != next_syscall()) return;
  for (std::size_t i = 1; i < waited.arguments.size(); ++i) {
    if (waited.arguments[i] != native_.general.regs[i]) return;
  }
  const bool was_set_back =
      ip() + kSyscallInstruction.size() == waited.ip && native_.general.regs[0] == waited.arguments[0];
  const bool reports_interruption = ip() == waited.ip && result() == -EINTR;
  if (!was_set_back && !reports_interruption) return;
  native_.call = waited.number;
  native_.first_argument = waited.arguments[0];
  if (!was_set_back) return;
  native_.general.pc = waited.ip;
  set_result(KernelKnowsTimeLeft(waited) ? kRestartBlock : kRestartSys);
}

void Registers::PrepareForKernel() {
  if (native_.call >= 0 && IsRestart(result())) {
    const bool has_time_left = result() == kRestartBlock;
    RepeatSyscall();
    if (has_time_left) set_next_syscall(SYS_restart_syscall);
  }
  native_.kernel_call = -1;
}

std::array<std::uint64_t, dwarf::kRegisterCount> Registers::InDwarfOrder() const {
  std::array<std::uint64_t, dwarf::kRegisterCount> values{};
  for (std::size_t i = 0; i <= kLink; ++i) values[i] = native_.general.regs[i];
  values[dwarf::kStackPointer] = sp();
  values[dwarf::kReturnAddress] = ip();
  return values;
}

}  // namespace probing::arch
