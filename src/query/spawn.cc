#include "query/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>

#include <csignal>

#include "query/worker.h"

extern char** environ;

namespace probing::query {
namespace {

// Closed when the scope ends.
class SpawnActions {
 public:
  SpawnActions() { posix_spawn_file_actions_init(&actions_); }
  ~SpawnActions() { posix_spawn_file_actions_destroy(&actions_); }
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// Signals are as a fresh program expects them, whatever probingd does with its own.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }
  posix_spawnattr_t* get() { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

Result<pid_t> Spawn(const std::string& program, const std::vector<std::string>& arguments, int socket) {
  std::vector<char*> argv{const_cast<char*>("probingd")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  SpawnActions actions;
  SpawnAttributes attributes;
  posix_spawn_file_actions_addopen(actions.get(), 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(actions.get(), socket, kWorkerSocket);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program.c_str(), actions.get(), attributes.get(), argv.data(), environ);
  if (error != 0) return ErrnoError("start the query worker " + program, error);
  return pid;
}

}  // namespace

Result<Spawned> SpawnWorker(const std::string& program, const std::vector<std::string>& arguments) {
  int sockets[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return ErrnoError("socketpair");
  ScopedFd ours(sockets[0]);
  ScopedFd theirs(sockets[1]);
  // dup2 onto itself would leave the descriptor marked close-on-exec.
  if (theirs.get() == kWorkerSocket) theirs.Reset(fcntl(theirs.get(), F_DUPFD_CLOEXEC, kWorkerSocket + 1));
  ASSIGN_OR_RETURN(const pid_t pid, Spawn(program, arguments, theirs.get()));
  return Spawned{pid, std::move(ours)};
}

}  // namespace probing::query
