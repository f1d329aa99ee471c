#include "probe/start_daemon.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "base/scoped_fd.h"
#include "wire/rendezvous.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace probing::probe {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;  // for each of two processes that only make system calls
constexpr int kManyFiles = 4096;

// By variables that mean nothing without a probingd.
bool IsAskedFor() {
  for (const char* name :
       {"PROBE_ADDR", "PROBING_ADDR", "PROBING_PORT", "PROBING_SERVER_ADDR", "PROBING_STORE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0' && std::string_view(value) != "none") return true;
  }
  return false;
}

bool IsRunning() {
  for (const std::string& directory : wire::RuntimeDirectories(geteuid())) {
    if (wire::Connect(directory + "/probingd.sock", geteuid()).ok()) return true;
  }
  return false;
}

// "" when there is none that could be run.
std::string FindDaemon(const std::string& library_path) {
  const std::unique_ptr<char, decltype(&free)> real(realpath(library_path.c_str(), nullptr), &free);
  if (real == nullptr) return "";
  const std::string path(real.get());
  const std::string folder = path.substr(0, path.rfind('/'));
  for (const char* place : {"/probingd", "/../libexec/probingd", "/../bin/probingd", "/../../bin/probingd"}) {
    std::string daemon = folder + place;
    if (access(daemon.c_str(), X_OK) == 0) return daemon;
  }
  return "";
}

// What makes other programs targets must not make one of the daemon.
bool IsForTargets(std::string_view variable) {
  for (const std::string_view name : {"LD_PRELOAD=", "PROBING=", "PROBE=", "PROBING_RUN_PID="}) {
    if (variable.starts_with(name)) return true;
  }
  return false;
}

// Everything the new processes need, made beforehand: they share our memory and may only call the kernel.
struct Plan {
  const char* program;
  char* const* arguments;
  char* const* environment;
  const char* log;
  char* second_stack;  // its upper end
};

int BecomeDaemon(void* argument) {
  const auto& plan = *static_cast<const Plan*>(argument);
  setsid();
  const int null = open("/dev/null", O_RDWR);
  const int log = open(plan.log, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  dup2(log >= 0 ? log : null, STDERR_FILENO);
  // The job's files are none of the daemon's business.
  if (syscall(SYS_close_range, 3U, ~0U, 0U) != 0) {
    for (int fd = 3; fd < kManyFiles; ++fd) close(fd);
  }
  (void)!chdir("/");
  execve(plan.program, plan.arguments, plan.environment);
  _exit(127);
}

// A parent that ends at once, so that the daemon is nobody's child here.
int StartAndEnd(void* argument) {
  const auto& plan = *static_cast<const Plan*>(argument);
  clone(&BecomeDaemon, plan.second_stack, CLONE_VM | CLONE_VFORK, argument);
  _exit(0);
}

}  // namespace

Serving StartDaemonIfAsked(const std::string& library_path) {
  if (!IsAskedFor()) return Serving::kNotAsked;
  if (IsRunning()) return Serving::kExpected;
  const std::string program = FindDaemon(library_path);
  const auto directory = wire::PrepareRuntimeDirectory();
  if (program.empty() || !directory.ok()) return Serving::kImpossible;
  const std::string log = *directory + "/probingd.log";
  std::string name = "probingd";
  std::string how = "--from-probe";
  std::array<char*, 3> arguments{name.data(), how.data(), nullptr};
  std::vector<char*> environment;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    if (!IsForTargets(*variable)) environment.push_back(*variable);
  }
  environment.push_back(nullptr);
  void* stacks = mmap(nullptr, 2 * kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stacks == MAP_FAILED) return Serving::kImpossible;
  char* first_stack = static_cast<char*>(stacks) + kStackBytes;
  Plan plan{program.c_str(), arguments.data(), environment.data(), log.c_str(), first_stack + kStackBytes};
  // No signal at its end (the lowest byte of the flags is 0): the job's handlers and waits are its own.
  const pid_t child = clone(&StartAndEnd, first_stack, CLONE_VM | CLONE_VFORK, &plan);
  if (child > 0) {
    while (waitpid(child, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  munmap(stacks, 2 * kStackBytes);
  return child > 0 ? Serving::kExpected : Serving::kImpossible;
}

}  // namespace probing::probe
