// FakeMemory: an address space of one block, for tests. Everything outside of it is unmapped.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include "process/memory.h"

namespace probing::cpython {

class FakeMemory final : public process::Memory {
 public:
  static constexpr std::uint64_t kBase = 0x10000;

  explicit FakeMemory(std::size_t size_bytes) : bytes_(size_bytes) {}

  Result<void> Read(process::RemoteAddress from, std::span<std::byte> out) const override {
    if (before_read) before_read();
    const std::uint64_t at = from.address - kBase;
    if (from.address < kBase || at > bytes_.size() || out.size() > bytes_.size() - at) {
      return Error{Code::kFailed, "unmapped", ""};
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + at, out.size());
    return {};
  }

  template <typename T>
  void Write(process::RemoteAddress to, const T& value) {
    std::memcpy(bytes_.data() + (to.address - kBase), &value, sizeof(value));
  }
  void Write(process::RemoteAddress to, std::string_view text) {
    std::memcpy(bytes_.data() + (to.address - kBase), text.data(), text.size());
  }

  // Space that was not given out before, aligned like an object.
  process::RemoteAddress Allocate(std::size_t size_bytes) {
    const process::RemoteAddress at{kBase + used_};
    used_ += (size_bytes + 15) / 16 * 16;
    return at;
  }

  void FillWithNoise(std::mt19937& random) {
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
  }

  // Words that point back into the block, mixed with small numbers: the worst a walker can meet.
  void FillWithPointers(std::mt19937& random) {
    for (std::size_t at = 0; at + 8 <= bytes_.size(); at += 8) {
      const std::uint64_t word = random() % 4 == 0 ? random() % 64 : kBase + random() % bytes_.size() / 8 * 8;
      std::memcpy(bytes_.data() + at, &word, sizeof(word));
    }
  }

  std::function<void()> before_read;  // lets the "target" run between two reads

 private:
  std::vector<std::byte> bytes_;
  std::size_t used_ = 0;
};

}  // namespace probing::cpython
