// Reads values, among them the encodings of DWARF, from a copy of bytes. Past the end everything is zero and
// ok() is false.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace probing {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return at_ >= bytes_.size(); }
  std::size_t position() const { return at_; }

  template <typename T>
  T Take() {
    T value{};
    if (sizeof(T) > bytes_.size() - at_) {
      Fail();
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  std::uint64_t TakeUleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = Take<std::uint8_t>();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if ((byte & 0x80U) == 0) return value;
    }
  }

  std::int64_t TakeSleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const auto byte = Take<std::uint8_t>();
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      shift += 7;
      if ((byte & 0x80U) != 0) continue;
      if (shift < 64 && (byte & 0x40U) != 0) value |= ~std::uint64_t{0} << shift;
      return static_cast<std::int64_t>(value);
    }
  }

  std::span<const std::byte> TakeBytes(std::uint64_t count) {
    if (count > bytes_.size() - at_) {
      Fail();
      return {};
    }
    const auto taken = bytes_.subspan(at_, count);
    at_ += count;
    return taken;
  }

  std::string_view TakeCString() {
    const char* start = reinterpret_cast<const char*>(bytes_.data()) + at_;
    const auto* end = static_cast<const char*>(std::memchr(start, 0, bytes_.size() - at_));
    if (end == nullptr) {
      Fail();
      return {};
    }
    at_ += static_cast<std::size_t>(end - start) + 1;
    return {start, static_cast<std::size_t>(end - start)};
  }

 private:
  void Fail() {
    ok_ = false;
    at_ = bytes_.size();
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace probing
