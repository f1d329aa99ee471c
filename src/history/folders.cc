#include "history/folders.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace probing::history {

Result<void> MakeFolders(const std::string& directory, const std::string& folder) {
  for (std::size_t at = 0; at != std::string::npos;) {
    at = folder.find('/', at + 1);
    const std::string path = directory + "/" + folder.substr(0, at);
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return ErrnoError("create " + path);
  }
  return {};
}

Result<ScopedFd> LockFile(const std::string& path, const std::string& directory) {
  ScopedFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return ErrnoError("open " + path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return Error{Code::kFailed, "another probingd of this host writes to " + directory,
                 "give one of them a directory of its own: PROBING_DATA_DIR"};
  return lock;
}

}  // namespace probing::history
