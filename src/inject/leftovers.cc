#include "inject/leftovers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "arch/loader_stub.h"
#include "base/file.h"
#include "base/scoped_fd.h"
#include "process/maps.h"

namespace probing::inject {
namespace {

constexpr std::size_t kMostRemoved = 256;

bool HasThread(pid_t pid, std::uint64_t tid) {
  return access(("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid)).c_str(), F_OK) == 0;
}

// False when the file says that a helper got it which may still be there. One that was not written to its
// end was never given to a helper.
bool IsAbandoned(pid_t pid, int memfd, std::uint64_t size_bytes) {
  arch::LoaderCall call;
  if (size_bytes < arch::kMailboxBytes || size_bytes % arch::kMailboxBytes != 0) return true;
  const auto mailbox_at = static_cast<off_t>(size_bytes - arch::kMailboxBytes);
  if (pread(memfd, &call, sizeof(call), mailbox_at) != static_cast<ssize_t>(sizeof(call))) return false;
  if (call.helper_thread == 0) return true;
  // The number of a thread means nothing in another namespace.
  if (call.pid_namespace == 0 || call.pid_namespace != OwnPidNamespace()) return false;
  return !HasThread(pid, call.helper_thread);
}

// The pages of the stub. Nothing when the library itself is mapped from this file.
std::vector<process::Mapping> StubPages(const process::Maps& maps, std::uint64_t inode) {
  std::vector<process::Mapping> pages;
  for (const process::Mapping& mapping : maps.all()) {
    if (mapping.inode != inode || mapping.path != kMemfdPath) continue;
    if (mapping.file_offset == 0) return {};
    pages.push_back(mapping);
  }
  return pages;
}

void RemoveOne(pid_t pid, std::uint64_t fd, const RemoteSyscall& call) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  const ScopedFd memfd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!memfd.valid() || fstat(memfd.get(), &status) != 0) return;
  if (!IsAbandoned(pid, memfd.get(), static_cast<std::uint64_t>(status.st_size))) return;
  // After that look: the helper is gone, so what is mapped now stays so.
  const auto maps = process::Maps::Read(pid);
  const auto target = ReadLink(path);
  if (!maps.ok() || !target.ok() || *target != kMemfdPath) return;
  for (const process::Mapping& page : StubPages(*maps, status.st_ino)) {
    (void)call(SYS_munmap, {page.start, page.end - page.start});
  }
  (void)call(SYS_close, {fd});
}

}  // namespace

std::uint64_t OwnPidNamespace() {
  struct stat status{};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

void RemoveLeftovers(pid_t pid, const RemoteSyscall& call) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  const auto names = ListDirectory(folder);
  if (!names.ok()) return;
  std::size_t removed = 0;
  for (const std::string& name : *names) {
    const auto target = ReadLink(folder + "/" + name);
    if (!target.ok() || *target != kMemfdPath || removed >= kMostRemoved) continue;
    std::uint64_t fd = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), fd).ec != std::errc()) continue;
    RemoveOne(pid, fd, call);
    ++removed;
  }
}

}  // namespace probing::inject
