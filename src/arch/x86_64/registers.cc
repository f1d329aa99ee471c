#include "arch/registers.h"

namespace probing::arch {
namespace {

using Field = unsigned long long user_regs_struct::*;

constexpr std::array<Field, 4> kArguments = {&user_regs_struct::rdi, &user_regs_struct::rsi,
                                             &user_regs_struct::rdx, &user_regs_struct::rcx};
constexpr std::array<Field, 6> kSyscallArguments = {&user_regs_struct::rdi, &user_regs_struct::rsi,
                                                    &user_regs_struct::rdx, &user_regs_struct::r10,
                                                    &user_regs_struct::r8,  &user_regs_struct::r9};
constexpr std::uint64_t kDirectionFlag = 0x400;
constexpr std::uint64_t kTrapFlag = 0x100;

}  // namespace

std::uint64_t Registers::ip() const { return native_.general.rip; }
void Registers::set_ip(std::uint64_t address) { native_.general.rip = address; }
std::uint64_t Registers::sp() const { return native_.general.rsp; }
void Registers::set_sp(std::uint64_t address) { native_.general.rsp = address; }
std::uint64_t Registers::thread_pointer() const { return native_.general.fs_base; }

std::int64_t Registers::result() const { return static_cast<std::int64_t>(native_.general.rax); }
void Registers::set_result(std::int64_t value) { native_.general.rax = static_cast<std::uint64_t>(value); }

void Registers::EnterFunction(std::uint64_t code, std::uint64_t sp, std::uint64_t /*returns_to*/) {
  native_.general.rip = code;
  native_.general.rsp = sp;
  native_.general.rax = 0;  // no vector registers carry arguments
  native_.general.eflags &= ~(kDirectionFlag | kTrapFlag);
  set_syscall(-1);
}

void Registers::set_argument(std::size_t index, std::uint64_t value) {
  native_.general.*kArguments[index] = value;
}

std::int64_t Registers::syscall() const { return static_cast<std::int64_t>(native_.general.orig_rax); }

void Registers::set_syscall(std::int64_t number) {
  native_.general.orig_rax = static_cast<std::uint64_t>(number);
}

std::uint64_t Registers::syscall_argument(std::size_t index) const {
  return native_.general.*kSyscallArguments[index];
}

void Registers::set_syscall_argument(std::size_t index, std::uint64_t value) {
  native_.general.*kSyscallArguments[index] = value;
}

std::int64_t Registers::next_syscall() const { return static_cast<std::int64_t>(native_.general.rax); }

void Registers::set_next_syscall(std::int64_t number) {
  native_.general.rax = static_cast<std::uint64_t>(number);
}

void Registers::RepeatSyscall() {
  native_.general.rip -= kSyscallInstruction.size();
  native_.general.rax = native_.general.orig_rax;
}

std::array<RegisterPart, kRegisterParts> Registers::Parts() {
  return {{{NT_PRSTATUS, std::as_writable_bytes(std::span(&native_.general, 1)), true}}};
}

void Registers::Recognise(const WaitedCall& /*waited*/) {}
void Registers::PrepareForKernel() {}

std::array<std::uint64_t, dwarf::kRegisterCount> Registers::InDwarfOrder() const {
  const user_regs_struct& r = native_.general;
  return {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
          r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip};
}

}  // namespace probing::arch
