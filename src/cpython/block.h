// Block: the first bytes of a structure in the target, copied once, then looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "process/memory.h"

namespace probing::cpython {

class Block {
 public:
  explicit Block(std::size_t size_bytes) : bytes_(size_bytes) {}

  static Result<Block> Read(const process::Memory& memory, process::RemoteAddress from, std::size_t size_bytes) {
    Block block(size_bytes);
    RETURN_IF_ERROR(memory.Read(from, block.bytes_));
    return block;
  }

  // A field outside of the block, or one this version does not have, reads as zero.
  template <typename T>
  T Get(std::uint32_t offset) const {
    T value{};
    if (offset <= bytes_.size() && sizeof(T) <= bytes_.size() - offset) {
      std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    }
    return value;
  }
  process::RemoteAddress GetPointer(std::uint32_t offset) const { return {Get<std::uint64_t>(offset)}; }

  std::span<std::byte> bytes() { return bytes_; }
  bool operator==(const Block&) const = default;

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace probing::cpython
