// Blocks: the first bytes of structures in the target, copied once, then looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "process/memory.h"

namespace probing::cpython {

// Looks at a copy. A field outside of it, or one this version does not have, reads as zero.
class BlockView {
 public:
  explicit BlockView(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T Get(std::uint32_t offset) const {
    T value{};
    if (offset <= bytes_.size() && sizeof(T) <= bytes_.size() - offset) {
      std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    }
    return value;
  }
  process::RemoteAddress GetPointer(std::uint32_t offset) const { return {Get<std::uint64_t>(offset)}; }

 private:
  std::span<const std::byte> bytes_;
};

// Copies of many structures of one kind, fetched together.
class Blocks {
 public:
  static Result<Blocks> Read(const process::Memory& memory, std::span<const process::RemoteAddress> addresses,
                             std::size_t size_bytes) {
    Blocks blocks(addresses.size(), size_bytes);
    std::vector<process::Memory::Piece> pieces;
    pieces.reserve(addresses.size());
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      pieces.push_back({addresses[i], std::span(blocks.bytes_).subspan(i * size_bytes, size_bytes)});
    }
    RETURN_IF_ERROR(memory.ReadPieces(pieces));
    return blocks;
  }

  // REQUIRES: index < number of addresses. Valid as long as the Blocks are.
  BlockView operator[](std::size_t index) const {
    return BlockView(std::span(bytes_).subspan(index * size_bytes_, size_bytes_));
  }

 private:
  Blocks(std::size_t count, std::size_t size_bytes) : size_bytes_(size_bytes), bytes_(count * size_bytes) {}

  std::size_t size_bytes_;
  std::vector<std::byte> bytes_;
};

// Only one.
class Block {
 public:
  static Result<Block> Read(const process::Memory& memory, process::RemoteAddress from,
                            std::size_t size_bytes) {
    Block block;
    block.bytes_.resize(size_bytes);
    RETURN_IF_ERROR(memory.Read(from, block.bytes_));
    return block;
  }

  template <typename T>
  T Get(std::uint32_t offset) const {
    return BlockView(bytes_).Get<T>(offset);
  }
  process::RemoteAddress GetPointer(std::uint32_t offset) const {
    return BlockView(bytes_).GetPointer(offset);
  }
  BlockView view() const { return BlockView(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace probing::cpython
