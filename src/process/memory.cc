#include "process/memory.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "base/scoped_fd.h"

namespace probing::process {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

std::string Where(pid_t pid, RemoteAddress address, std::size_t size) {
  std::array<char, 96> text;
  std::snprintf(text.data(), text.size(), "process %d, %zu bytes at 0x%llx", pid, size,
                static_cast<unsigned long long>(address.address));
  return text.data();
}

// Whether the call itself is what is missing: gVisor has none, and seccomp profiles take it away. What it
// gives may still be had from /proc, by the same rule of who may read whom.
bool IsCallMissing(int error) { return error == ENOSYS || error == EPERM; }

bool ReadThroughProc(pid_t pid, std::span<const Memory::Piece> pieces) {
  const ScopedFd file(open(("/proc/" + std::to_string(pid) + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return false;
  for (const Memory::Piece& piece : pieces) {
    const ssize_t n =
        pread(file.get(), piece.out.data(), piece.out.size(), static_cast<off_t>(piece.from.address));
    if (n != static_cast<ssize_t>(piece.out.size())) return false;
  }
  return true;
}

}  // namespace

Result<void> Memory::ReadPieces(std::span<const Piece> pieces) const {
  for (const Piece& piece : pieces) RETURN_IF_ERROR(Read(piece.from, piece.out));
  return {};
}

Result<std::string> Memory::ReadCString(RemoteAddress from, std::size_t max_bytes) const {
  std::string text;
  std::array<char, 256> chunk;
  while (text.size() < max_bytes) {
    // Up to the next page border only: the string may end just before an unmapped page.
    const std::uint64_t at = from.address + text.size();
    const std::size_t size = std::min(
        {chunk.size(), max_bytes - text.size(), static_cast<std::size_t>(kPageBytes - at % kPageBytes)});
    RETURN_IF_ERROR(Read({at}, std::as_writable_bytes(std::span(chunk.data(), size))));
    const char* end = std::find(chunk.data(), chunk.data() + size, '\0');
    text.append(chunk.data(), static_cast<std::size_t>(end - chunk.data()));
    if (end != chunk.data() + size) break;
  }
  return text;
}

Result<void> ProcessMemory::Read(RemoteAddress from, std::span<std::byte> out) const {
  if (out.empty()) return {};
  const iovec local{out.data(), out.size()};
  const iovec remote{reinterpret_cast<void*>(from.address), out.size()};
  const ssize_t n = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(out.size())) return {};
  const int error = n < 0 ? errno : EFAULT;
  const Piece whole{from, out};
  if (IsCallMissing(error) && ReadThroughProc(pid_, {&whole, 1})) return {};
  return ErrnoError("read memory of " + Where(pid_, from, out.size()), error);
}

Result<void> ProcessMemory::ReadPieces(std::span<const Piece> pieces) const {
  constexpr std::size_t kMaxPiecesPerCall = 1024;  // IOV_MAX
  std::vector<iovec> local;
  std::vector<iovec> remote;
  while (!pieces.empty()) {
    const auto now = pieces.first(std::min(pieces.size(), kMaxPiecesPerCall));
    pieces = pieces.subspan(now.size());
    local.clear();
    remote.clear();
    std::size_t total = 0;
    for (const Piece& piece : now) {
      local.push_back({piece.out.data(), piece.out.size()});
      remote.push_back({reinterpret_cast<void*>(piece.from.address), piece.out.size()});
      total += piece.out.size();
    }
    const ssize_t n = process_vm_readv(pid_, local.data(), local.size(), remote.data(), remote.size(), 0);
    if (n == static_cast<ssize_t>(total)) continue;
    const int error = n < 0 ? errno : EFAULT;
    if (IsCallMissing(error) && ReadThroughProc(pid_, now)) continue;
    return ErrnoError("read memory of " + Where(pid_, now.front().from, total) + " and elsewhere", error);
  }
  return {};
}

Result<void> ProcessMemory::Write(RemoteAddress to, std::span<const std::byte> data) const {
  const iovec local{const_cast<std::byte*>(data.data()), data.size()};
  const iovec remote{reinterpret_cast<void*>(to.address), data.size()};
  const ssize_t n = process_vm_writev(pid_, &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(data.size())) return {};
  return ErrnoError("write memory of " + Where(pid_, to, data.size()), n < 0 ? errno : EFAULT);
}

}  // namespace probing::process
