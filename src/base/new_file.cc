#include "base/new_file.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/file.h"
#include "base/scoped_fd.h"

namespace probing {

Result<void> WriteNewFile(const std::string& path, std::string_view data) {
  const std::string hidden = path + "." + std::to_string(getpid()) + ".part";
  const auto fail = [&](Error error) {
    unlink(hidden.c_str());
    return error;
  };
  {
    const ScopedFd file(open(hidden.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return ErrnoError("write " + hidden);
    if (Result<void> written = WriteAll(file.get(), data); !written.ok()) {
      Error error = written.error();
      error.message = "cannot write " + path + ": " + error.message;
      return fail(std::move(error));
    }
    if (fsync(file.get()) != 0) return fail(ErrnoError("write " + path));
  }
  constexpr unsigned kNoReplace = 1;  // RENAME_NOREPLACE
  long renamed = syscall(SYS_renameat2, AT_FDCWD, hidden.c_str(), AT_FDCWD, path.c_str(), kNoReplace);
  if (renamed != 0 && (errno == EINVAL || errno == ENOSYS)) {  // a file system that cannot
    renamed = access(path.c_str(), F_OK) == 0 ? -1 : rename(hidden.c_str(), path.c_str());
    if (renamed != 0) errno = EEXIST;
  }
  if (renamed == 0) return {};
  if (errno == EEXIST) return fail({Code::kUsage, path + " is there already", "choose another name"});
  return fail(ErrnoError("write " + path));
}

}  // namespace probing
