// What a column is called and holds.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "ring/format.h"

namespace probing::ring {

struct Column {
  std::string name;
  ColumnType type = ColumnType::kInt64;

  bool operator==(const Column&) const = default;
};

// Names of tables and columns: anything without control characters.
inline bool NameIsUsable(std::string_view name, std::size_t max_bytes) {
  return !name.empty() && name.size() <= max_bytes && std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
}

inline bool TypeIsKnown(std::uint8_t type) {
  return type >= static_cast<std::uint8_t>(ColumnType::kInt64) &&
         type <= static_cast<std::uint8_t>(ColumnType::kTimestamp);
}

inline bool IsText(ColumnType type) { return type == ColumnType::kString || type == ColumnType::kBytes; }

}  // namespace probing::ring
