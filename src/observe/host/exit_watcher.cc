#include "observe/host/exit_watcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "base/clock.h"
#include "observe/host/pidfd.h"
#include "observe/host/proc_connector.h"

namespace probing::observe {
namespace {

struct NamedSignal {
  int number;
  const char* name;
};
constexpr std::array kSignals{
#define PROBING_SIGNAL(name) \
  NamedSignal { name, #name }
    PROBING_SIGNAL(SIGHUP),  PROBING_SIGNAL(SIGINT),  PROBING_SIGNAL(SIGQUIT), PROBING_SIGNAL(SIGILL),
    PROBING_SIGNAL(SIGTRAP), PROBING_SIGNAL(SIGABRT), PROBING_SIGNAL(SIGBUS),  PROBING_SIGNAL(SIGFPE),
    PROBING_SIGNAL(SIGKILL), PROBING_SIGNAL(SIGUSR1), PROBING_SIGNAL(SIGSEGV), PROBING_SIGNAL(SIGUSR2),
    PROBING_SIGNAL(SIGPIPE), PROBING_SIGNAL(SIGALRM), PROBING_SIGNAL(SIGTERM), PROBING_SIGNAL(SIGXCPU),
    PROBING_SIGNAL(SIGXFSZ), PROBING_SIGNAL(SIGSYS),  PROBING_SIGNAL(SIGPROF), PROBING_SIGNAL(SIGVTALRM),
    PROBING_SIGNAL(SIGIO),   PROBING_SIGNAL(SIGPWR),
#undef PROBING_SIGNAL
};

std::optional<std::string> ReadAt(const ScopedFd& folder, const char* name) {
  ScopedFd fd(openat(folder.get(), name, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return std::nullopt;
  std::array<char, 2048> buffer;
  const ssize_t n = pread(fd.get(), buffer.data(), buffer.size(), 0);
  if (n <= 0) return std::nullopt;
  return std::string(buffer.data(), static_cast<std::size_t>(n));
}

}  // namespace

const char* ReasonName(HowItEnded::Reason reason) {
  switch (reason) {
    case HowItEnded::Reason::kExit:
      return "exit";
    case HowItEnded::Reason::kSignal:
      return "signal";
    case HowItEnded::Reason::kOom:
      return "oom";
    case HowItEnded::Reason::kUnknown:
      break;
  }
  return "unknown";
}

std::string SignalName(int signal) {
  for (const NamedSignal& named : kSignals) {
    if (named.number == signal) return named.name;
  }
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) return "SIGRTMIN+" + std::to_string(signal - SIGRTMIN);
  return "signal " + std::to_string(signal);
}

Result<ExitWatcher> ExitWatcher::Watch(pid_t pid, const ExitWatcherOptions& options) {
  const std::string path = "/proc/" + std::to_string(pid);
  ScopedFd folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ScopedFd pidfd = OpenPidfd(pid);
  // Both were opened by number: that the folder still answers says that they mean the same.
  if (!folder.valid() || !ReadAt(folder, "stat").has_value()) {
    return Error{Code::kNotFound, "there is no process " + std::to_string(pid), ""};
  }
  return ExitWatcher(pid, std::move(pidfd), std::move(folder), options);
}

ExitWatcher::ExitWatcher(pid_t pid, ScopedFd pidfd, ScopedFd folder, const ExitWatcherOptions& options)
    : pid_(pid),
      pidfd_(std::move(pidfd)),
      folder_(std::move(folder)),
      options_(options),
      cgroups_(FindCgroups(pid)),
      oom_kills_(ReadOomKills(cgroups_)) {
  if (options.use_kernel_log) kernel_log_ = KernelLog::FromNow();
}

bool ExitWatcher::HasEnded() {
  if (pidfd_.valid()) {
    pollfd end{pidfd_.get(), POLLIN, 0};
    return poll(&end, 1, 0) > 0;
  }
  const auto text = ReadAt(folder_, "stat");
  const auto stat = text.has_value() ? ParseTaskStat(*text) : std::nullopt;
  // The main thread is a zombie also when only others still run.
  return !stat.has_value() || (stat->state == 'Z' && stat->threads().value_or(1) <= 1) || stat->state == 'X';
}

std::optional<int> ExitWatcher::ReadZombie() {
  if (!options_.use_zombie) return std::nullopt;
  // Where we may not look the kernel says 0. This link asks for the same right and says it plainly:
  // EACCES without, and with it ENOENT, because a zombie has no program any more.
  std::array<char, 16> link;
  if (readlinkat(folder_.get(), "exe", link.data(), link.size()) >= 0 || errno != ENOENT) return std::nullopt;
  const auto text = ReadAt(folder_, "stat");
  const auto stat = text.has_value() ? ParseTaskStat(*text) : std::nullopt;
  if (!stat.has_value() || (stat->state != 'Z' && stat->state != 'X')) return std::nullopt;
  const Number status = stat->exit_status();
  return status.has_value() ? std::optional<int>(static_cast<int>(*status)) : std::nullopt;
}

std::optional<int> ExitWatcher::FindStatus() {
  // A zombie may be waited for between two of these: the first way answers then, if there is one.
  if (const auto status = ReadZombie()) return status;
  if (options_.use_pidfd) {
    if (const auto status = ReadExitStatus(pidfd_)) return status;
  }
  return options_.connector != nullptr ? options_.connector->ExitStatusOf(pid_) : std::nullopt;
}

std::optional<HowItEnded> ExitWatcher::Check() {
  if (!HasEnded()) {
    oom_kills_ = ReadOomKills(cgroups_);
    return std::nullopt;
  }
  HowItEnded how;
  how.noticed_ns = WallNs();
  const std::optional<int> status = FindStatus();
  if (!status.has_value()) {
    how.message = "its parent waited for it first; after that Linux before 6.15 tells nobody how it ended";
  } else if (WIFEXITED(*status)) {
    how.reason = HowItEnded::Reason::kExit;
    how.exit_code = WEXITSTATUS(*status);
  } else {
    how.reason = HowItEnded::Reason::kSignal;
    how.signal = WTERMSIG(*status);
    how.core_dumped = WCOREDUMP(*status);
  }
  Explain(how);
  return how;
}

// Whether it was the kernel that killed it, for want of memory.
void ExitWatcher::Explain(HowItEnded& how) {
  if (how.reason == HowItEnded::Reason::kExit) return;
  if (how.signal.has_value() && *how.signal != SIGKILL) {
    if (how.core_dumped) how.message = "core dumped";
    return;
  }
  if (kernel_log_.has_value()) {
    if (auto line = kernel_log_->FindOomKill(pid_)) {
      how.reason = HowItEnded::Reason::kOom;
      how.signal = SIGKILL;
      how.message = std::move(*line);
      return;
    }
  }
  // The counter does not say who: only a process that was killed can be meant.
  const Number kills = ReadOomKills(cgroups_);
  if (how.signal == SIGKILL && kills.has_value() && oom_kills_.has_value() && *kills > *oom_kills_) {
    how.reason = HowItEnded::Reason::kOom;
    how.message = "the kernel killed in its control group for want of memory: " + cgroups_.memory.front();
  }
}

bool KeepsExitStatus() {
  utsname name{};
  if (uname(&name) != 0) return false;
  std::string_view release = name.release;  // "6.18.44-…"
  const Number major = ParseNumber(release);
  release.remove_prefix(std::min(release.find('.') + 1, release.size()));
  const Number minor = ParseNumber(release);
  return major > 6 || (major == 6 && minor >= 15);
}

}  // namespace probing::observe
