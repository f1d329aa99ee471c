// Patches: what a fuzzer's input does to the memory of a fake Python.
//
// Bytes that are a whole interpreter by chance are rare. So the fuzzers make a valid one, and the
// input says which words of it are something else, and from when on: changes between two reads are
// what a running target does all the time. Six bytes each: when, how, where (2), what (2).
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "cpython/fake_memory.h"

namespace probing::cpython {

class Patches {
 public:
  static constexpr std::size_t kMemoryBytes = 1 << 16;

  // Lifetime: `memory` must outlive it, and be of kMemoryBytes.
  Patches(std::span<const std::uint8_t> input, FakeMemory& memory) : memory_(&memory) {
    patches_.resize(input.size() / sizeof(Patch));
    if (!patches_.empty()) std::memcpy(patches_.data(), input.data(), patches_.size() * sizeof(Patch));
    Apply();
    memory.before_read = [this] {
      ++reads_;
      Apply();
    };
  }
  ~Patches() { memory_->before_read = nullptr; }
  Patches(const Patches&) = delete;
  Patches& operator=(const Patches&) = delete;

 private:
  struct Patch {
    std::uint8_t after_reads;
    std::uint8_t how;
    std::uint16_t where;
    std::uint16_t what;
  };
  static_assert(sizeof(Patch) == 6);

  void Apply() {
    for (; done_ < patches_.size() && patches_[done_].after_reads <= reads_; ++done_) Apply(patches_[done_]);
    // The last ones come again and again: a target that never rests.
    if (done_ == patches_.size() && !patches_.empty() && patches_.back().after_reads != 0)
      Apply(patches_[reads_ % patches_.size()]);
  }

  void Apply(const Patch& patch) {
    const process::RemoteAddress at{FakeMemory::kBase + patch.where % kMemoryBytes / 8 * 8};
    const std::uint64_t value = patch.what;
    switch (patch.how % 8) {
      case 0:
        return memory_->Write(at, FakeMemory::kBase + value / 8 * 8);
      case 1:
        return memory_->Write(at, FakeMemory::kBase + value);
      case 2:
        return memory_->Write(at, value);
      case 3:
        return memory_->Write(at, ~value);
      case 4:
        return memory_->Write(at, value << 48U);
      case 5:
        return memory_->Write(at, patch.what);
      case 6:
        return memory_->Write(at + patch.what % 8, static_cast<std::uint8_t>(patch.what >> 8U));
      default:
        return memory_->Write(at, value << 24U | value);
    }
  }

  FakeMemory* memory_;
  std::vector<Patch> patches_;
  std::size_t done_ = 0;
  std::uint64_t reads_ = 0;
};

}  // namespace probing::cpython
