#include "process/core_memory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

namespace probing::process {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

std::string Hex(std::uint64_t address) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

// A mapped file ends with zeroes up to the end of its last page.
Result<std::size_t> ReadMappedFile(const RandomAccessFile& file, std::uint64_t offset,
                                   std::span<std::byte> out) {
  const std::uint64_t size = file.size_bytes();
  if (offset < size) {
    const std::size_t count = std::min<std::uint64_t>(out.size(), size - offset);
    RETURN_IF_ERROR(file.Read(offset, out.first(count)));
    return count;
  }
  const std::uint64_t last_page_end = (size + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (offset >= last_page_end)
    return Error{Code::kFailed, file.path() + " is shorter than what was mapped", ""};
  const std::size_t count = std::min<std::uint64_t>(out.size(), last_page_end - offset);
  std::fill_n(out.begin(), count, std::byte{0});
  return count;
}

}  // namespace

Result<RandomAccessFile> RandomAccessFile::Open(const std::string& path) {
  // Not blocking: a path from a core may be a pipe by now.
  ScopedFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoError("cannot open " + path);
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return ErrnoError("cannot look at " + path);
  if (!S_ISREG(info.st_mode)) return Error{Code::kFailed, path + " is not a regular file", ""};
  return RandomAccessFile(path, std::move(fd), static_cast<std::uint64_t>(info.st_size));
}

Result<void> RandomAccessFile::Read(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size_bytes_ || out.size() > size_bytes_ - offset) {
    return Error{Code::kFailed, path_ + " ends before offset " + Hex(offset + out.size()), ""};
  }
  while (!out.empty()) {
    const ssize_t got = pread(fd_.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError("cannot read " + path_);
    if (got == 0) return Error{Code::kFailed, path_ + " became shorter while it was read", ""};
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<void> CoreMemory::Read(RemoteAddress from, std::span<std::byte> out) const {
  std::uint64_t address = from.address;
  while (!out.empty()) {
    ASSIGN_OR_RETURN(const std::size_t count, ReadSome(address, out));
    address += count;
    out = out.subspan(count);
  }
  return {};
}

Result<std::size_t> CoreMemory::ReadSome(std::uint64_t address, std::span<std::byte> out) const {
  auto next = std::upper_bound(regions_.begin(), regions_.end(), address,
                               [](std::uint64_t a, const CoreRegion& region) { return a < region.start; });
  if (next == regions_.begin() || address >= std::prev(next)->end) {
    return Error{Code::kFailed, "nothing was mapped at " + Hex(address), ""};
  }
  const CoreRegion& region = *std::prev(next);
  const std::uint64_t offset = address - region.start;
  if (offset < region.core_bytes) {
    const std::size_t count = std::min<std::uint64_t>(out.size(), region.core_bytes - offset);
    RETURN_IF_ERROR(core_.Read(region.core_offset + offset, out.first(count)));
    return count;
  }
  if (region.path.empty()) return Error{Code::kFailed, "the core leaves out " + Hex(address), ""};
  if (region.file == nullptr) {
    return Error{Code::kFailed,
                 "the core leaves out " + Hex(address) + " of " + region.path + ", which is missing",
                 "give the program, or a folder with its files, after the core"};
  }
  const std::size_t within = std::min<std::uint64_t>(out.size(), region.end - address);
  return ReadMappedFile(*region.file, region.file_offset + offset, out.first(within));
}

}  // namespace probing::process
