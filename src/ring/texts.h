// Texts: from cells to strings, for a Reader.
//
// Entries of the dictionary are copied when they are first met and stay where they are, so a
// string_view of one is good as long as the reader. Entries of a heap go to the batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ring/format.h"
#include "ring/source.h"

namespace probing::ring {

// A copy of the directory's entry, or nothing when there is none or it lies outside of the file.
std::optional<SegmentEntry> ReadSegmentEntry(const Source& source, std::uint32_t index);

class Texts {
 public:
  explicit Texts(Source* source) : source_(source) {}

  // Which segment it is. The first call counts, the others are ignored.
  void SetDictionary(const SegmentEntry& entry);

  // False when the cell names no entry.
  bool Interned(std::uint64_t cell, std::string_view* text);

  // Appends a heap's entry to `to`. False when the cell names none, or when `to` would become larger
  // than any lane's heap.
  bool CopyFromHeap(std::uint64_t cell, std::uint32_t table, std::string* to);

  // Heaps are looked up anew after this: they may change between two blocks.
  void ForgetHeaps() { heap_index_ = kMaxSegments; }

 private:
  Source* source_;
  SegmentEntry dictionary_{};
  std::unique_ptr<char[]> copy_;      // of the dictionary, where it was met already
  std::vector<std::uint64_t> known_;  // one bit per possible entry
  std::uint32_t heap_index_ = kMaxSegments;
  std::optional<SegmentEntry> heap_;
};

}  // namespace probing::ring
