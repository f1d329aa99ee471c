#include "cli/child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace probing::cli {

Result<Child> StartChild(bool collect, const std::function<int()>& work) {
  std::array<int, 2> ends{-1, -1};
  if (collect && pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoError("make a pipe");
  ScopedFd read_end(ends[0]);
  ScopedFd write_end(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return ErrnoError("start a process");
  if (pid == 0) {
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);
    if (write_end.valid()) dup2(write_end.get(), STDOUT_FILENO);
    _exit(work());
  }
  return Child{pid, std::move(read_end)};
}

ChildOutcome Await(Child child) {
  ChildOutcome outcome;
  std::array<char, 65536> bytes;
  while (child.out.valid()) {
    const ssize_t got = read(child.out.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    outcome.out.append(bytes.data(), static_cast<std::size_t>(got));
  }
  int status = 0;
  while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(Code::kFailed);
  return outcome;
}

}  // namespace probing::cli
