// Chunks: the memory of a target in pieces of 64 KB, each read once and kept.
//
// Millions of objects lie close together: a system call per 64 KB instead of several per object. What it
// shows is as old as the first look at the piece. Addresses outside of all mappings cost no system call, so
// that any word may be tried as a pointer.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <vector>

#include "process/maps.h"
#include "process/memory.h"

namespace probing::heap {

// Not thread-safe. Lifetime: `memory` must outlive it.
class Chunks final : public process::Memory {
 public:
  Chunks(const process::Memory& memory, const process::Maps& maps);

  Result<void> Read(process::RemoteAddress from, std::span<std::byte> out) const override;

  // The same without an error to make, for what is tried a million times.
  bool TryRead(std::uint64_t from, std::span<std::byte> out) const;
  bool TryWord(std::uint64_t from, std::uint64_t& word) const {
    return TryRead(from, std::as_writable_bytes(std::span(&word, 1)));
  }
  // Whether all these bytes are mapped, in one piece.
  bool IsMapped(std::uint64_t address, std::uint64_t size_bytes) const;
  // From `address` to the end of what is mapped there.
  std::uint64_t MappedAfter(std::uint64_t address) const;

 private:
  static constexpr std::uint64_t kChunkBytes = 1 << 16;
  static constexpr std::uint64_t kPageBytes = 1 << 12;
  static constexpr std::size_t kMaxChunks = 1 << 14;  // 1 GB
  static constexpr std::size_t kRecent = 1 << 10;

  struct Chunk {
    std::uint16_t readable_pages = 0;  // a bit for each
    std::array<std::byte, kChunkBytes> bytes;
  };
  struct Range {
    std::uint64_t start, end;
  };
  struct Recent {
    std::uint64_t number = UINT64_MAX;
    const Chunk* chunk = nullptr;
  };

  const Chunk& Find(std::uint64_t number) const;
  void Fill(std::uint64_t start, Chunk& chunk) const;
  const Range* FindRange(std::uint64_t address) const;

  const process::Memory* memory_;
  std::vector<Range> ranges_;  // ascending
  mutable const Range* last_range_ = nullptr;
  mutable std::unordered_map<std::uint64_t, std::unique_ptr<Chunk>> chunks_;
  mutable std::vector<std::uint64_t> numbers_;  // of all chunks, in the order in which they came
  mutable std::size_t oldest_ = 0;
  mutable std::array<Recent, kRecent> recent_;
};

}  // namespace probing::heap
