// LimitedMemory: another Memory, of which only so much may be read.
//
// Data structures of a target can be long, deep or garbage. Instead of counting in every reader,
// the number of reads and of bytes is limited here, for all of them together.
#pragma once

#include <algorithm>

#include "process/memory.h"

namespace probing::cpython {

// Not thread-safe. Lifetime: `memory` must outlive it.
class LimitedMemory final : public process::Memory {
 public:
  explicit LimitedMemory(const process::Memory& memory) : memory_(&memory) {}

  // Before the first call nothing may be read.
  void Allow(std::size_t reads, std::size_t bytes) {
    reads_left_ = reads;
    bytes_left_ = bytes;
  }
  std::size_t reads_left() const { return reads_left_; }
  bool is_spent() const { return reads_left_ == 0 || bytes_left_ == 0; }

  Result<void> Read(process::RemoteAddress from, std::span<std::byte> out) const override {
    if (is_spent() || out.size() > bytes_left_) {
      bytes_left_ = 0;
      return Error{Code::kFailed, "enough was read", ""};
    }
    --reads_left_;
    bytes_left_ -= out.size();
    return memory_->Read(from, out);
  }

  // Counts as one read per thousand pieces, as many as system calls.
  Result<void> ReadPieces(std::span<const Piece> pieces) const override {
    std::size_t bytes = 0;
    for (const Piece& piece : pieces) bytes += piece.out.size();
    const std::size_t reads = (pieces.size() + kPiecesPerCall - 1) / kPiecesPerCall;
    if (is_spent() || bytes > bytes_left_ || reads > reads_left_) {
      bytes_left_ = 0;
      return Error{Code::kFailed, "enough was read", ""};
    }
    reads_left_ -= reads;
    bytes_left_ -= bytes;
    return memory_->ReadPieces(pieces);
  }

 private:
  static constexpr std::size_t kPiecesPerCall = 1024;

  const process::Memory* memory_;
  mutable std::size_t reads_left_ = 0;
  mutable std::size_t bytes_left_ = 0;
};

}  // namespace probing::cpython
