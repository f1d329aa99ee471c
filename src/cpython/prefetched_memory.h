// PrefetchedMemory: pieces of another memory, fetched in one system call before they are asked for.
//
// For readers that follow pointers they followed before: what is where it was costs nothing, and
// the rest is read as usual. Everything prefetched is as old as the prefetch.
#pragma once

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "process/memory.h"

namespace probing::cpython {

class PrefetchedMemory final : public process::Memory {
 public:
  // Lifetime: `memory` must outlive it.
  explicit PrefetchedMemory(const process::Memory& memory) : memory_(memory) {}

  struct Wanted {
    process::RemoteAddress from;
    std::size_t size_bytes = 0;
  };
  // Once. When one piece is gone nothing is prefetched, which is slower and not wrong.
  void Fetch(const std::vector<Wanted>& wanted) {
    std::size_t total_bytes = 0;
    for (const Wanted& piece : wanted) total_bytes += piece.size_bytes;
    bytes_.resize(total_bytes);
    std::vector<Piece> pieces;
    pieces.reserve(wanted.size());
    known_.reserve(wanted.size());
    std::size_t at = 0;
    for (const Wanted& piece : wanted) {
      const auto out = std::span(bytes_).subspan(at, piece.size_bytes);
      pieces.push_back({piece.from, out});
      known_.emplace(piece.from.address, out);
      at += piece.size_bytes;
    }
    if (!memory_.ReadPieces(pieces).ok()) known_.clear();
  }

  Result<void> Read(process::RemoteAddress from, std::span<std::byte> out) const override {
    const auto known = known_.find(from.address);
    if (known == known_.end() || known->second.size() < out.size()) return memory_.Read(from, out);
    std::memcpy(out.data(), known->second.data(), out.size());
    return {};
  }

 private:
  const process::Memory& memory_;
  std::vector<std::byte> bytes_;
  std::unordered_map<std::uint64_t, std::span<const std::byte>> known_;
};

}  // namespace probing::cpython
