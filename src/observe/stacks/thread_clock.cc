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

// The third number of "run_ns wait_ns times_run"; 0 where the kernel does not count.
std::uint64_t TimesRun(std::string_view schedstat) {
  const std::size_t last_space = schedstat.rfind(' ');
  if (last_space == std::string_view::npos) return 0;
  const std::string_view text = schedstat.substr(last_space + 1);
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
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
  std::uint64_t times_run = 0;
  if (schedstat_.valid()) {
    ASSIGN_OR_RETURN(const std::string_view text, ReadAgain(schedstat_, buffer));
    times_run = TimesRun(text);
  }
  if (slept_ && times_run != 0 && times_run == times_run_) return Look{.on_cpu = false, .has_run = false};
  ASSIGN_OR_RETURN(const std::string_view text, ReadAgain(stat_, buffer));
  const bool runs = StatLine(text).state() == 'R';
  times_run_ = times_run;
  slept_ = !runs;
  return Look{.on_cpu = runs, .has_run = true};
}

}  // namespace probing::observe
