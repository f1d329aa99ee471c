// Protocol buffers, written by hand: the formats that we write are a few kinds of records.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace probing {

// One message under construction. Fields with the value 0 are left out, as usual, but for Fixed64 and Double:
// of several fields of which one is there, which one says something.
class ProtobufMessage {
 public:
  void Number(int field, std::uint64_t value) {
    if (value == 0) return;
    Tag(field, 0);
    Varint(value);
  }
  // Of a choice of fields: also when it is 0.
  void Choice(int field, std::uint64_t value) {
    Tag(field, 0);
    Varint(value);
  }
  void Fixed64(int field, std::uint64_t value) {
    Tag(field, 1);
    for (int i = 0; i < 8; ++i, value >>= 8U) bytes_ += static_cast<char>(value & 0xff);
  }
  void Double(int field, double value) { Fixed64(field, std::bit_cast<std::uint64_t>(value)); }
  void Bytes(int field, std::string_view value) {
    Tag(field, 2);
    Varint(value.size());
    bytes_ += value;
  }
  // Only when there is one.
  void Text(int field, std::string_view value) {
    if (!value.empty()) Bytes(field, value);
  }
  void Inside(int field, const ProtobufMessage& message) { Bytes(field, message.bytes_); }
  void Packed(int field, const std::vector<std::uint64_t>& values) {
    ProtobufMessage packed;
    for (const std::uint64_t value : values) packed.Varint(value);
    Bytes(field, packed.bytes_);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Tag(int field, unsigned wire_type) { Varint(static_cast<unsigned>(field) << 3U | wire_type); }
  void Varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace probing
