#include "cli/recorded_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/scoped_fd.h"
#include "cli/output.h"

namespace probing::cli {

Result<void> CopyRecordedFile(const std::string& from, const std::string& to) {
  const ScopedFd source(open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source.valid()) return ErrnoError("read " + from);
  const ScopedFd file(open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) return ErrnoError("write " + to);
  std::vector<char> piece(1 << 20);
  off_t at = 0;
  while (true) {
    const ssize_t got = pread(source.get(), piece.data(), piece.size(), at);
    if (got < 0) return ErrnoError("read " + from);
    if (got == 0) break;
    RETURN_IF_ERROR(WriteAll(file.get(), std::string_view(piece.data(), static_cast<std::size_t>(got))));
    at += got;
  }
  PrintAside(to + "\n");
  return {};
}

}  // namespace probing::cli
