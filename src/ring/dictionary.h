// Dictionary: short strings of all tables, each kept once.
//
// Append-only and bounded. What is full stays useful: strings it has are found, others are left to
// the lanes' heaps. No column may fill more than an eighth of it, so that one column of ever new
// names (request ids, file names) does not take it from all others.
//
// Intern() is thread-safe, lock-free and async-signal-safe. The index is private to the writer; a
// reader needs none, since a cell is an offset.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "ring/segment_file.h"

namespace probing::ring {

class Dictionary {
 public:
  static constexpr std::uint64_t kNone = ~0ULL;

  explicit Dictionary(SegmentFile* file) : file_(file) {}
  ~Dictionary();
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;

  // 0 or an errno. Once, before anything else.
  int Open(std::uint64_t bytes);

  // The cell of a string, or kNone when there is no room for a new one. `column_bytes` counts what
  // the column has added so far.
  // REQUIRES: text.size() <= kMaxInterned; this process is the writer's.
  std::uint64_t Intern(std::string_view text, std::atomic<std::uint64_t>* column_bytes);

 private:
  bool Equals(std::uint64_t cell, std::string_view text) const;
  std::uint64_t Append(std::string_view text, std::atomic<std::uint64_t>* column_bytes);
  bool Grow(std::uint64_t bytes);

  SegmentFile* file_;
  Segment segment_;
  std::atomic<std::uint64_t> allocated_{0};
  std::atomic<bool> growing_{false};
  std::atomic<std::uint64_t>* index_ = nullptr;  // upper half of the hash << 32 | cell; 0 is free
  std::uint64_t index_mask_ = 0;
};

}  // namespace probing::ring
