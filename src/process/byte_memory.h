// ByteMemory: an address space of one block, for tests and fuzzers. Everything around it is unmapped.
#pragma once

#include <cstring>
#include <vector>

#include "process/memory.h"

namespace probing::process {

class ByteMemory final : public Memory {
 public:
  ByteMemory(std::uint64_t start, std::span<const std::byte> content)
      : start_(start), content_(content.begin(), content.end()) {}

  Result<void> Read(RemoteAddress from, std::span<std::byte> out) const override {
    const std::uint64_t at = from.address - start_;
    if (from.address < start_ || at > content_.size() || out.size() > content_.size() - at) {
      return Error{Code::kFailed, "nothing is mapped there", ""};
    }
    if (!out.empty()) std::memcpy(out.data(), content_.data() + at, out.size());
    return {};
  }

 private:
  std::uint64_t start_;
  std::vector<std::byte> content_;
};

}  // namespace probing::process
