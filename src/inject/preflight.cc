// Everything that could stop an attach, found out without touching the target.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>

#include "base/clock.h"
#include "base/file.h"
#include "base/scoped_fd.h"
#include "inject/entry_points.h"
#include "inject/inject.h"
#include "inject/preflight_rules.h"
#include "inject/sandbox.h"
#include "process/maps.h"
#include "process/status.h"
#include "process/thread_status.h"
#include "process/traced_thread.h"

namespace probing::inject {
namespace {

using process::Status;

bool MayTraceAnyone() {
  const auto text = ReadFile("/proc/self/status");
  return text.ok() && Capabilities::Parse(*text).MayTraceAnyone();
}

std::string ProcessText(pid_t pid) { return "process " + std::to_string(pid); }

Check Passed(std::string name, std::string detail) { return {std::move(name), true, std::move(detail), {}}; }

Check Failed(std::string name, Code code, std::string message, std::string hint) {
  return {std::move(name), false, message, Error{code, std::move(message), std::move(hint)}};
}

Check CheckKind(const Status& status) {
  const std::string who = ProcessText(status.pid);
  if (status.ended()) {
    return Failed("process", Code::kNotFound, who + " is a zombie: it has ended",
                  "its parent, process " + std::to_string(status.parent) + ", has not collected it yet");
  }
  if (status.exiting) return {"process", false, who + " is just ending", process::EndedMeanwhile(status.pid)};
  if (status.kernel_thread) {
    return Failed("process", Code::kNotFound, who + " is a kernel thread (" + status.name + ")",
                  "name a program's pid");
  }
  if (status.pid == getpid())
    return Failed("process", Code::kNotFound, who + " is this very command", "name another pid");
  return Passed("process", status.name + ", " + std::to_string(status.threads) + " threads");
}

Check CheckOwner(const Status& status) {
  const std::string owner = "uid " + std::to_string(status.effective_uid);
  if (MayTraceAnyone() || (status.effective_uid == geteuid() && status.real_uid == geteuid())) {
    return Passed("owner", owner);
  }
  return Failed(
      "owner", Code::kPermission,
      ProcessText(status.pid) + " belongs to " + owner + ", you are uid " + std::to_string(geteuid()),
      "run as that user or with sudo");
}

Check CheckDisabled(const Status& status) {
  auto value = process::StartupEnvironment(status.pid, "PROBING_DISABLE");
  if (!value.ok() || *value == "0" || value->empty()) return Passed("consent", "PROBING_DISABLE is not set");
  return Failed("consent", Code::kPermission,
                ProcessText(status.pid) + " was started with PROBING_DISABLE=" + *value,
                "its owner does not want it probed; restart it without that variable");
}

Check CheckTracer(const Status& status) {
  // Asked after `status` was read: a sampler of ours comes back a hundred times a second.
  if (status.tracer == 0 || process::WaitForOurOtherTracers(status.pid)) {
    return Passed("tracer", "nobody traces it");
  }
  auto tracer = process::ReadStatus(status.tracer);
  return Failed("tracer", Code::kPermission,
                ProcessText(status.pid) + " is already traced by process " + std::to_string(status.tracer) +
                    (tracer.ok() ? " (" + tracer->name + ")" : ""),
                "detach that debugger or profiler first");
}

bool IsStopped(const Status& status) { return status.state == 'T' || status.state == 't'; }

Check CheckRunning(const Status& status) {
  if (!IsStopped(status)) return Passed("state", std::string("state ") + status.state);
  return Failed("state", Code::kPermission, ProcessText(status.pid) + " is stopped (state T)",
                "let it run with `kill -CONT " + std::to_string(status.pid) + "`; `backtrace` works without");
}

// 0 where there is no Yama.
int YamaScope() {
  auto text = ReadFile("/proc/sys/kernel/yama/ptrace_scope");
  return text.ok() ? std::atoi(text->c_str()) : 0;
}

bool IsDescendant(pid_t pid) {
  for (int generation = 0; generation < 64 && pid > 1; ++generation) {
    if (pid == getpid()) return true;
    auto status = process::ReadStatus(pid);
    if (!status.ok()) return false;
    pid = status->parent;
  }
  return false;
}

Check CheckYama(const Status& status) {
  return JudgeYama(status.pid, YamaScope(), MayTraceAnyone(), IsDescendant(status.pid));
}

Check CheckSeccomp(const Status& status) {
  const std::string tasks = "/proc/" + std::to_string(status.pid) + "/task";
  const auto read = [](const std::string& folder) {
    auto text = ReadFile(folder + "/status");
    return text.ok() ? Seccomp::Parse(*text) : Seccomp{};
  };
  const Seccomp ours = read("/proc/self");
  ThreadCount count;
  if (auto threads = process::ListThreads(status.pid); threads.ok()) {
    count.all = static_cast<int>(threads->size());
    for (const pid_t tid : *threads) {
      count.filtered += HasFilterOfItsOwn(read(tasks + "/" + std::to_string(tid)), ours) ? 1 : 0;
    }
  }
  return JudgeSeccomp(status.pid, {status.seccomp_mode, status.seccomp_filters}, ours, count);
}

Check CheckBinary(const Status& status) {
  const std::string path = "/proc/" + std::to_string(status.pid) + "/exe";
  const ScopedFd exe(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!exe.valid()) {
    return Failed("binary", Code::kPermission,
                  "cannot read the program of " + ProcessText(status.pid) + ": " + ErrnoName(errno),
                  "run as its user or with sudo");
  }
  std::array<std::byte, sizeof(Elf64_Ehdr)> header{};
  const ssize_t n = read(exe.get(), header.data(), header.size());
  return JudgeProgram(status.pid, std::span(header).first(n > 0 ? static_cast<std::size_t>(n) : 0),
                      status.shadow_stack);
}

// Whether a process uses the very memory of another, as between vfork() and exec(). kcmp() knows; where a
// kernel has none, the parent of such a child is found waiting for it in a call that starts processes.
bool UsesMemoryOf(pid_t pid, pid_t parent) {
  constexpr int kVirtualMemory = 1;  // KCMP_VM
  const long order = syscall(SYS_kcmp, pid, parent, kVirtualMemory, 0, 0);
  if (order >= 0) return order == 0;
  const auto waits = process::ReadThreadStatus(parent, parent);
  if (!waits.ok() || waits->state != 'D') return false;
  constexpr std::string_view kClone = "56";  // calls without a name there
  constexpr std::string_view kVfork = "58";
  constexpr std::string_view kClone3 = "435";
  return waits->syscall == kClone || waits->syscall == kVfork || waits->syscall == kClone3;
}

Check CheckOwnMemory(const Status& status) {
  if (status.parent <= 0 || !UsesMemoryOf(status.pid, status.parent)) return Passed("own memory", "yes");
  const std::string parent = "process " + std::to_string(status.parent);
  return Failed("own memory", Code::kPermission,
                ProcessText(status.pid) + " is a child of vfork(): it still runs in the memory of " + parent,
                "try again when it has started its program, or name " + parent);
}

Check CheckMemory(const Status& status) {
  const std::string who = ProcessText(status.pid);
  auto maps = process::Maps::Read(status.pid);
  if (!maps.ok() || maps->all().empty()) {
    return Failed("memory", Code::kPermission, "cannot see the memory of " + who,
                  "run as its user or with sudo");
  }
  switch (DetectLinkage(*maps)) {
    case Linkage::kMusl:
      return Failed("C library", Code::kPermission, who + " uses musl, not the GNU C library",
                    "only glibc programs can be entered; `backtrace` works without");
    case Linkage::kStatic:
      return Failed("C library", Code::kPermission, who + " is statically linked: it has no loader to use",
                    "`backtrace` works without injection");
    case Linkage::kGlibc:
      break;
  }
  const process::ProcessMemory memory(status.pid);
  auto word = memory.ReadValue(process::RemotePtr<std::uint64_t>{maps->all().front().start});
  if (!word.ok() && word.error().code == Code::kPermission) {
    return Failed("memory", Code::kPermission, "the kernel forbids to read the memory of " + who,
                  "it may have made itself undumpable, or be in another user namespace: use sudo");
  }
  return Passed("C library", "glibc");
}

// What a sampler of ours does to the process for a moment is none of its properties: it comes and goes some
// hundred times a second, also while the kernel's text is read.
Result<Status> ReadUndisturbed(pid_t pid) {
  constexpr int kLooks = 20;
  constexpr std::int64_t kBetweenUs = 500;
  Result<Status> status = process::ReadStatus(pid);
  for (int look = 1; look < kLooks && status.ok() && (status->tracer != 0 || IsStopped(*status)); ++look) {
    if (!process::WaitForOurOtherTracers(pid)) break;
    SleepUs(kBetweenUs);
    status = process::ReadStatus(pid);
  }
  return status;
}

}  // namespace

std::vector<Check> Examine(pid_t pid) {
  const auto status = ReadUndisturbed(pid);
  if (!status.ok()) return {{"process", false, status.error().message, status.error()}};
  std::vector<Check> checks{CheckKind(*status)};
  // What is not a program at all has none of the other properties.
  if (!checks.front().passed) return checks;
  for (const auto& check :
       {CheckOwner, CheckDisabled, CheckTracer, CheckYama, CheckRunning, CheckOwnMemory, CheckSeccomp}) {
    checks.push_back(check(*status));
  }
  for (Check& check : ExamineSandbox(pid, status->effective_uid)) checks.push_back(std::move(check));
  checks.push_back(CheckBinary(*status));
  if (checks.back().passed) checks.push_back(CheckMemory(*status));
  return checks;
}

std::vector<Check> ExamineHost() {
  std::vector<Check> checks;
  const int scope = YamaScope();
  const bool any = MayTraceAnyone();
  checks.push_back(Passed("rights", any ? "may trace every process (CAP_SYS_PTRACE)"
                                        : "may trace own processes (uid " + std::to_string(geteuid()) + ")"));
  if (scope == 0 || (any && scope < 3)) {
    checks.push_back(Passed("Yama", "ptrace_scope " + std::to_string(scope)));
  } else {
    checks.push_back(
        Failed("Yama", Code::kPermission,
               "ptrace_scope " + std::to_string(scope) + ": only own children can be traced",
               "use sudo, or `sysctl kernel.yama.ptrace_scope=0`, or start jobs with PROBING=1"));
  }
  const ScopedFd memfd(static_cast<int>(syscall(SYS_memfd_create, "probing", MFD_CLOEXEC)));
  if (memfd.valid()) {
    checks.push_back(Passed("memfd", "available"));
  } else {
    checks.push_back(
        Failed("memfd", Code::kPermission, std::string("memfd_create fails: ") + ErrnoName(errno),
               "Linux 3.17 or newer is needed; in a container, its seccomp profile may forbid it"));
  }
  for (Check& check : ExamineSandbox()) checks.push_back(std::move(check));
  return checks;
}

Result<void> Preflight(pid_t pid) {
  for (const Check& check : Examine(pid)) {
    if (check.passed) continue;
    // Of a process that is just ending nothing can be read; that is no matter of rights.
    const bool about_rights = check.error.code == Code::kPermission;
    return about_rights && !process::IsAlive(pid) ? process::EndedMeanwhile(pid) : check.error;
  }
  return {};
}

}  // namespace probing::inject
