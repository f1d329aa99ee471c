// Text: a string inside a batch of rows, without ownership, 16 bytes.
//
// Up to 12 bytes are stored in place; longer ones are pointed to, with their first four bytes
// beside the length. This is bit for bit the form in which DuckDB keeps strings in a vector
// (query/scan_function.cc checks that), so a source writes straight into the engine's memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace probing::table {

class Text {
 public:
  static constexpr std::uint32_t kMaxInline = 12;

  Text() = default;
  // `text` must outlive this when it has more than kMaxInline bytes, and be shorter than 4 GB.
  explicit Text(std::string_view text) : length_(static_cast<std::uint32_t>(text.size())) {
    if (text.size() <= kMaxInline) {
      if (!text.empty()) std::memcpy(bytes_, text.data(), text.size());
    } else {
      std::memcpy(bytes_, text.data(), 4);
      const char* data = text.data();
      std::memcpy(bytes_ + 4, &data, sizeof(data));
    }
  }

  // REQUIRES: this outlives the view when the text is short.
  std::string_view view() const {
    if (length_ <= kMaxInline) return {bytes_, length_};
    const char* data = nullptr;
    std::memcpy(&data, bytes_ + 4, sizeof(data));
    return {data, length_};
  }

 private:
  std::uint32_t length_ = 0;
  char bytes_[kMaxInline] = {};  // unused bytes are zero: the engine compares all 16
};
static_assert(sizeof(Text) == 16);

}  // namespace probing::table
