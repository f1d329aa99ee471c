// SegmentFile: the memory file behind a ring, cut into segments.
//
// A segment is a range of the file that is mapped on its own. Memory is given to it piece by piece
// with fallocate(), so that "no memory" is an error code and never a SIGBUS, and is counted against
// one budget for the whole file. Ranges are never used twice: a freed one goes back to the system
// as a hole, and a reader that still looks at it sees zeros.
//
// All functions are thread-safe, lock-free and async-signal-safe except Create(), and are cold:
// they make system calls. None may be called in a forked child (see guard()).
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "ring/fork_guard.h"
#include "ring/format.h"

namespace probing::ring {

struct Segment {
  char* base = nullptr;  // null: there is none
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  std::uint64_t allocated = 0;  // from the beginning on; what lies behind must not be touched
  std::uint32_t index = 0;      // in the directory

  template <typename T>
  T* At(std::uint64_t at) const {
    return reinterpret_cast<T*>(base + at);
  }
};

class SegmentFile {
 public:
  // `fd` is an empty memory file: see MakeMemoryFile(). Sealed against shrinking where it can be.
  static Result<std::unique_ptr<SegmentFile>> Create(ScopedFd fd, std::uint64_t max_bytes);
  ~SegmentFile();
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  // A mapped range without memory that no reader sees yet. Returns 0 or an errno.
  int New(std::uint64_t size, Segment* segment);
  // Gives memory to at least the first `bytes` of a segment. ENOSPC: the budget is used up.
  int Allocate(Segment* segment, std::uint64_t bytes);
  void Publish(const Segment& segment, SegmentKind kind, std::uint32_t table);
  // Back to the system. Does nothing for an empty one.
  void Free(Segment* segment);

  int fd() const { return fd_.get(); }
  const ForkGuard& guard() const { return guard_; }
  ForkGuard& guard() { return guard_; }
  std::uint64_t allocated_bytes() const { return allocated_.load(std::memory_order_relaxed); }
  std::uint64_t max_bytes() const { return max_bytes_.load(std::memory_order_relaxed); }
  void set_max_bytes(std::uint64_t bytes);
  void MarkClosed();

 private:
  SegmentFile(ScopedFd fd, std::uint64_t max_bytes) : fd_(std::move(fd)), max_bytes_(max_bytes) {}

  int Begin();
  // Whether the descriptor is still ours: jobs that daemonize close everything, and the number may
  // belong to a file of theirs by now.
  bool OwnsFd() const;
  int Extend(std::uint64_t end);
  bool TakeBudget(std::uint64_t bytes);
  void ReturnBudget(std::uint64_t bytes);
  void ShowBudget();  // to readers
  SegmentEntry* entry(std::uint32_t index) const;

  ForkGuard guard_;
  ScopedFd fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  std::uint64_t page_bytes_ = 4096;
  FileHeader* header_ = nullptr;
  std::atomic<std::uint64_t> end_{0};  // of the last segment
  std::atomic<std::uint64_t> allocated_{0};
  std::atomic<std::uint64_t> max_bytes_;
  std::array<std::atomic<bool>, kMaxSegments> taken_{};
};

// A memfd named "probing-ring", closed at exec.
Result<ScopedFd> MakeMemoryFile();

}  // namespace probing::ring
