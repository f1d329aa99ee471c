// SavedStack: the memory of a process as a suspended greenlet sees it.
//
// A greenlet that is switched away from leaves its part of the C stack to others, which is copied to the heap
// before. Since Python 3.12 some frames are in that part.
#pragma once

#include "process/memory.h"

namespace probing::cpython {

// Lifetime: `memory` must outlive it.
class SavedStack final : public process::Memory {
 public:
  // The bytes that belong to [start, start + size_bytes) are at `copy`.
  SavedStack(const process::Memory& memory, std::uint64_t start, std::uint64_t size_bytes, std::uint64_t copy)
      : memory_(&memory), start_(start), size_bytes_(size_bytes), copy_(copy) {}

  Result<void> Read(process::RemoteAddress from, std::span<std::byte> out) const override {
    const bool is_saved = from.address >= start_ && from.address - start_ < size_bytes_ &&
                          out.size() <= size_bytes_ - (from.address - start_);
    return memory_->Read(is_saved ? process::RemoteAddress{copy_ + (from.address - start_)} : from, out);
  }

 private:
  const process::Memory* memory_;
  std::uint64_t start_, size_bytes_, copy_;
};

}  // namespace probing::cpython
