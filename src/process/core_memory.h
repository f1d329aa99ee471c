// The memory of a core file, put together from the core and from the files that were mapped.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/scoped_fd.h"
#include "process/memory.h"

namespace probing::process {

// A file of which any part can be read. It may shrink meanwhile: that is an error, not a SIGBUS,
// which is why it is not mapped.
class RandomAccessFile {
 public:
  static Result<RandomAccessFile> Open(const std::string& path);

  // Fills `out` entirely or fails.
  Result<void> Read(std::uint64_t offset, std::span<std::byte> out) const;

  std::uint64_t size_bytes() const { return size_bytes_; }
  const std::string& path() const { return path_; }

 private:
  RandomAccessFile(std::string path, ScopedFd fd, std::uint64_t size_bytes)
      : path_(std::move(path)), fd_(std::move(fd)), size_bytes_(size_bytes) {}

  std::string path_;
  ScopedFd fd_;
  std::uint64_t size_bytes_;
};

// A part of the address space: its first bytes are in the core, the rest in a mapped file.
struct CoreRegion {
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t core_offset = 0;
  std::uint64_t core_bytes = 0;  // what the headers announce; at most end - start
  std::uint64_t file_offset = 0;
  std::string path;                        // "" when anonymous
  const RandomAccessFile* file = nullptr;  // null when there is none, or it is not found
};

class CoreMemory final : public Memory {
 public:
  // `regions` ascending and not overlapping; what they point to is in `files`.
  CoreMemory(RandomAccessFile core, std::vector<CoreRegion> regions,
             std::vector<std::unique_ptr<RandomAccessFile>> files)
      : core_(std::move(core)), regions_(std::move(regions)), files_(std::move(files)) {}

  Result<void> Read(RemoteAddress from, std::span<std::byte> out) const override;

 private:
  // Reads as much of `out` as one source has; returns how much that was.
  Result<std::size_t> ReadSome(std::uint64_t address, std::span<std::byte> out) const;

  RandomAccessFile core_;
  std::vector<CoreRegion> regions_;
  std::vector<std::unique_ptr<RandomAccessFile>> files_;
};

}  // namespace probing::process
