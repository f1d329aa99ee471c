#include "observe/stacks/thread_clock.h"

#include <fcntl.h>

#include <array>
#include <charconv>
#include <string_view>

#include "base/stat_line.h"

namespace probing::observe {
namespace {

using Buffer = std::array<char, 1024>;

Result<std::string_view> ReadAgain(const ScopedFd& fd, Buffer& buffer) {
  const ssize_t n = pread(fd.get(), buffer.data(), buffer.size(), 0);
  if (n < 0) return ErrnoError("read the state of a thread");  // ESRCH: it has ended
  return std::string_view(buffer.data(), static_cast<std::size_t>(n));
}

// "run_ns wait_ns times_run"; zeros where the kernel does not count.
struct Counts {
  std::int64_t waited_ns = 0;
  std::uint64_t times_run = 0;
};
Counts ParseCounts(std::string_view schedstat) {
  std::uint64_t run_ns = 0;
  Counts counts;
  const char* at = schedstat.data();
  const char* const end = at + schedstat.size();
  const auto next = [&](auto& number) {
    while (at < end && *at == ' ') ++at;
    at = std::from_chars(at, end, number).ptr;
  };
  next(run_ns);
  next(counts.waited_ns);
  next(counts.times_run);
  return counts;
}

}  // namespace

Result<ThreadClock> ThreadClock::Open(pid_t pid, pid_t tid, const std::string& proc_root) {
  const std::string folder = proc_root + "/" + std::to_string(pid) + "/task/" + std::to_string(tid);
  ScopedFd stat(open((folder + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!stat.valid()) {
    if (errno == ENOENT) return Error{Code::kNotFound, "there is no thread " + std::to_string(tid), ""};
    return ErrnoError("open " + folder + "/stat");
  }
  ScopedFd schedstat(open((folder + "/schedstat").c_str(), O_RDONLY | O_CLOEXEC));
  return ThreadClock(std::move(schedstat), std::move(stat));
}

Result<ThreadClock::Look> ThreadClock::LookNow() {
  Buffer buffer;
  Counts counts;
  if (schedstat_.valid()) {
    ASSIGN_OR_RETURN(const std::string_view text, ReadAgain(schedstat_, buffer));
    counts = ParseCounts(text);
  }
  Look look{.on_cpu = false, .has_run = false, .times_run = counts.times_run, .waited_ns = counts.waited_ns};
  if (slept_ && counts.times_run != 0 && counts.times_run == times_run_) return look;
  ASSIGN_OR_RETURN(const std::string_view text, ReadAgain(stat_, buffer));
  look.on_cpu = StatLine(text).state() == 'R';
  look.has_run = true;
  times_run_ = counts.times_run;
  slept_ = !look.on_cpu;
  return look;
}

}  // namespace probing::observe
