// /proc/net/tcp and /proc/locks: the kernel writes them, and a sandbox may write something else.
#include <cstdlib>
#include <string_view>

#include "why/descriptors.h"
#include "why/file_locks.h"
#include "why/sockets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::why;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const TcpSocket& socket : ParseTcpTable(text)) {
    if (socket.local.empty() || socket.remote.empty()) std::abort();
  }
  const std::vector<FileLock> locks = ParseFileLocks(text);
  for (const FileLock& lock : locks) {
    for (const FileLock& holder : LocksInTheWayOf(lock.pid, locks)) {
      if (holder.waits) std::abort();
    }
  }
  (void)InodeOf(text);
  return 0;
}
