// Numbers and strings in a row of bytes, both ways.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace probing::query {

class Packer {
 public:
  template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  Packer& Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Packer& Put(std::string_view text) {
    Put(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
    return *this;
  }
  Packer& Put(const std::string& text) { return Put(std::string_view(text)); }
  template <typename T>
  Packer& Put(const std::vector<T>& values) {
    Put(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) Put(value);
    return *this;
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Everything returns false once something was missing.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  bool Get(T& value) {
    if (rest_.size() < sizeof(value)) return false;
    if constexpr (std::is_same_v<T, bool>) {
      value = rest_[0] != 0;
    } else {
      std::memcpy(&value, rest_.data(), sizeof(value));
    }
    rest_.remove_prefix(sizeof(value));
    return true;
  }
  bool Get(std::string& text) {
    std::uint64_t size = 0;
    if (!Get(size) || size > rest_.size()) return false;
    text.assign(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return true;
  }
  template <typename T>
  bool Get(std::vector<T>& values) {
    std::uint64_t size = 0;
    if (!Get(size) || size > rest_.size()) return false;  // each takes a byte at least
    values.resize(size);
    for (T& value : values) {
      if (!Get(value)) return false;
    }
    return true;
  }
  bool done() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace probing::query
