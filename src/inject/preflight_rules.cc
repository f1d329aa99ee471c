#include "inject/preflight_rules.h"

#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "arch/native.h"
#include "base/text.h"

namespace probing::inject {
namespace {

std::string ProcessText(pid_t pid) { return "process " + std::to_string(pid); }

Check Passed(std::string name, std::string detail) { return {std::move(name), true, std::move(detail), {}}; }

Check Refused(std::string name, std::string message, std::string hint) {
  return {std::move(name), false, message, Error{Code::kPermission, std::move(message), std::move(hint)}};
}

}  // namespace

Seccomp Seccomp::Parse(std::string_view status_text) {
  Seccomp seccomp;
  while (!status_text.empty()) {
    const std::string_view line = TakePart(status_text, '\n');
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    const int value = std::atoi(std::string(line.substr(colon + 1)).c_str());
    if (key == "Seccomp") seccomp.mode = value;
    if (key == "Seccomp_filters") seccomp.filters = value;
  }
  return seccomp;
}

bool HasFilterOfItsOwn(const Seccomp& theirs, const Seccomp& ours) {
  if (theirs.mode == 0) return false;
  return theirs.mode != 2 || ours.mode != 2 || theirs.filters > ours.filters;
}

Check JudgeSeccomp(pid_t pid, const Seccomp& main_thread, const Seccomp& ours, const ThreadCount& threads) {
  if (HasFilterOfItsOwn(main_thread, ours)) {
    return Refused(
        "seccomp",
        ProcessText(pid) + " runs in a seccomp sandbox (" +
            (main_thread.mode == 1 ? "strict mode" : std::to_string(main_thread.filters) + " filters") +
            ") which may kill it for our system calls",
        "run probing inside the same container, or start the job with PROBING=1");
  }
  std::string detail =
      main_thread.mode == 0 ? "no filter" : std::to_string(main_thread.filters) + " filters, as here";
  if (threads.filtered > 0) {
    detail += "; " + std::to_string(threads.filtered) + " of " + std::to_string(threads.all) +
              " threads have one of their own and are left alone";
  }
  return Passed("seccomp", detail);
}

Check JudgeYama(pid_t pid, int scope, bool may_trace_anyone, bool is_descendant) {
  const std::string detail = "ptrace_scope " + std::to_string(scope);
  const bool allowed = scope == 0 || (scope < 3 && may_trace_anyone) || (scope == 1 && is_descendant);
  if (allowed) return Passed("Yama", detail);
  return Refused("Yama", "the kernel (Yama, " + detail + ") forbids to trace " + ProcessText(pid),
                 scope >= 3
                     ? "no one can attach on this machine until a reboot; start the job with PROBING=1"
                     : "use sudo, or `sysctl kernel.yama.ptrace_scope=0`, or start the job with PROBING=1");
}

Check JudgeProgram(pid_t pid, std::span<const std::byte> bytes, bool shadow_stack) {
  Elf64_Ehdr header{};
  std::memcpy(&header, bytes.data(), std::min(bytes.size(), sizeof(header)));
  if (header.e_ident[EI_CLASS] == ELFCLASS32) {
    return Refused("binary", ProcessText(pid) + " is a 32-bit program",
                   std::string("only ") + arch::kName + " is supported");
  }
  if (header.e_machine != arch::kElfMachine) {
    return Refused("binary", ProcessText(pid) + " is not an " + arch::kName + " program",
                   std::string("only ") + arch::kName + " is supported");
  }
  if (shadow_stack) {
    return Refused("binary", ProcessText(pid) + " uses a shadow stack (Intel CET)",
                   "start it with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off, or with PROBING=1");
  }
  return Passed("binary", arch::kName);
}

}  // namespace probing::inject
