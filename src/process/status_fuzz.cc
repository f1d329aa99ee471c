// The files of /proc about a process and a thread: both names in them are the target's own choice.
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "process/blocked_call.h"
#include "process/status.h"
#include "process/thread_status.h"

namespace {

// /proc/1 and /proc/1/task/1, with files in memory.
class FakeProc {
 public:
  FakeProc() {
    const std::string folder = root_ + "/1";
    for (const std::string& path : {root_, folder, folder + "/task", folder + "/task/1"})
      mkdir(path.c_str(), 0700);
    for (const char* name : {"/status", "/stat", "/cmdline", "/environ"}) Link(folder + name);
    for (const char* name : {"/stat", "/syscall", "/wchan", "/schedstat"}) Link(folder + "/task/1" + name);
  }

  void Write(std::string_view text) const {
    if (ftruncate(fd_, 0) != 0) std::abort();
    if (pwrite(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) std::abort();
  }
  const std::string& root() const { return root_; }

 private:
  // All of them are the same bytes: each reader takes what it looks for.
  void Link(const std::string& path) const {
    unlink(path.c_str());
    if (symlink(("/proc/self/fd/" + std::to_string(fd_)).c_str(), path.c_str()) != 0) std::abort();
  }

  int fd_ = static_cast<int>(syscall(SYS_memfd_create, "fuzz", MFD_CLOEXEC));
  std::string root_ = "/tmp/probing-status-fuzz-" + std::to_string(getuid());
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::process;
  static const FakeProc proc;
  proc.Write({reinterpret_cast<const char*>(data), size});
  const auto status = ReadStatus(1, proc.root());
  if (status.ok()) (void)status->own_pid();
  const auto thread = ReadThreadStatus(1, 1, proc.root());
  if (thread.ok()) (void)StateWord(thread->state);
  if (const auto call = ReadBlockedCall(1, 1, proc.root()); call.ok())
    (void)SurvivesStop(1, *call, proc.root());
  (void)ReadTimesRun(1, 1, proc.root());
  (void)CommandLine(1, proc.root());
  (void)StartupEnvironment(1, "PROBING", proc.root());
  return 0;
}
