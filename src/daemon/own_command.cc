#include "daemon/own_command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

#include "base/clock.h"
#include "base/file.h"
#include "base/scoped_fd.h"

extern char** environ;

namespace probing::daemon {
namespace {

struct Pipe {
  ScopedFd read_end;
  ScopedFd write_end;
};

Result<Pipe> MakePipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return ErrnoError("make a pipe");
  return Pipe{ScopedFd(ends[0]), ScopedFd(ends[1])};
}

Result<std::string> FindProgram() {
  ASSIGN_OR_RETURN(const std::string self, ReadLink("/proc/self/exe"));
  const std::string folder = self.substr(0, self.rfind('/'));
  for (const std::string& path : {folder + "/probing", folder + "/../bin/probing"}) {
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return Error{Code::kFailed, "`probing` is not beside " + self, "is the installation complete?"};
}

Result<pid_t> Spawn(const std::string& program, const std::vector<std::string>& arguments, int out, int err) {
  std::vector<char*> argv{const_cast<char*>("probing")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return ErrnoError("start " + program, error);
  return pid;
}

// False at the end of it.
bool ReadSome(const ScopedFd& fd, std::string& text) {
  std::array<char, 4096> bytes;
  const ssize_t n = read(fd.get(), bytes.data(), bytes.size());
  if (n > 0) text.append(bytes.data(), static_cast<std::size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

// False when the time was up before both were closed.
bool ReadBoth(Pipe& out, Pipe& err, CommandOutcome& outcome, const Deadline& deadline) {
  while (out.read_end.valid() || err.read_end.valid()) {
    std::array<pollfd, 2> ready{pollfd{out.read_end.get(), POLLIN, 0}, pollfd{err.read_end.get(), POLLIN, 0}};
    const int n = poll(ready.data(), ready.size(), deadline.left_ms());
    if (n == 0) return false;
    if (n < 0) continue;
    if (ready[0].revents != 0 && !ReadSome(out.read_end, outcome.out)) out.read_end.Reset();
    if (ready[1].revents != 0 && !ReadSome(err.read_end, outcome.err)) err.read_end.Reset();
  }
  return true;
}

}  // namespace

Result<CommandOutcome> RunOwnCommand(const std::vector<std::string>& arguments,
                                     std::chrono::milliseconds timeout) {
  ASSIGN_OR_RETURN(const std::string program, FindProgram());
  ASSIGN_OR_RETURN(Pipe out, MakePipe());
  ASSIGN_OR_RETURN(Pipe err, MakePipe());
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(program, arguments, out.write_end.get(), err.write_end.get()));
  out.write_end.Reset();
  err.write_end.Reset();
  CommandOutcome outcome;
  const bool ended = ReadBoth(out, err, outcome, Deadline::AfterMs(timeout.count()));
  if (!ended) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) return Error{Code::kTimeout, "`probing` did not end in time", ""};
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : static_cast<int>(Code::kFailed);
  return outcome;
}

}  // namespace probing::daemon
