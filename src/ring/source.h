// Source: the bytes of somebody else's ring, none of which is to be trusted.
//
// A sealed memory file is mapped read-only: it cannot shrink, so a page that was inside it stays
// readable. Anything else (a file on disk, a memory file without the seal) could be cut short
// under a mapping, which would kill us with SIGBUS, and is copied instead.
//
// The only way to the bytes are functions that check the range and copy. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "ring/words.h"

namespace probing::ring {

// Whether a descriptor that somebody sent is a memory file as writers make them: sealed against shrinking, so
// that it can be mapped, and of a size that one can have.
Result<void> CheckMemoryFile(int fd);

class Source {
 public:
  static Result<Source> Open(ScopedFd fd);
  static Source FromBytes(const void* bytes, std::size_t size);

  // Sees what has changed since: what the file has grown by, or all of it when it is a copy.
  Result<void> Refresh();
  // The cheap half of it, for the middle of a scan. No pointer into the bytes exists outside.
  void Grow();

  std::uint64_t size() const { return size_; }
  // How much of it has memory behind it, now: reading a hole of a memory file fills it. All of a copy.
  std::uint64_t allocated() const;
  bool Contains(std::uint64_t offset, std::uint64_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset;
  }

  // Zero outside of the file, which means "nothing" wherever the format has a number.
  // REQUIRES: offset is a multiple of sizeof(T).
  template <typename T>
  T Get(std::uint64_t offset) const {
    return Contains(offset, sizeof(T)) ? Load(reinterpret_cast<const T*>(base() + offset)) : T{};
  }
  template <typename T>
  T GetAcquire(std::uint64_t offset) const {
    return Contains(offset, sizeof(T)) ? LoadAcquire(reinterpret_cast<const T*>(base() + offset)) : T{};
  }
  // False outside of the file. REQUIRES: offset is a multiple of 8.
  bool Copy(std::uint64_t offset, std::uint64_t words, void* to) const {
    if (words > UINT64_MAX / 8 || !Contains(offset, words * 8)) return false;
    CopyWords(to, reinterpret_cast<const std::uint64_t*>(base() + offset), words);
    return true;
  }

 private:
  struct Unmap {
    std::uint64_t size;
    void operator()(char* base) const;
  };

  const char* base() const { return mapping_ ? mapping_.get() : reinterpret_cast<const char*>(copy_.data()); }
  Result<void> Map(std::uint64_t size);
  Result<void> CopyAll(std::uint64_t size);

  ScopedFd fd_;
  std::uint64_t size_ = 0;
  std::unique_ptr<char, Unmap> mapping_;
  std::vector<std::uint64_t> copy_;  // when it is not mapped
};

}  // namespace probing::ring
