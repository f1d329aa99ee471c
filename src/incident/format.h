// What an incident file is made of (docs/design/incident.md): a head of fixed size, an index in JSON, and one
// block of rows for each table.
//
//   head     wire/incident.h
//   index    {"…", "tables": [{"name", "columns": [[name, type]], "own", "rows", "left_out", "is_packed",
//   "bytes",
//            "unpacked", "sum"}]}
//   blocks   in the order of "tables": rows as they travel between hosts (query/gathered_rows.h)
//
// Numbers are little-endian, as on all machines that we run on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "table/types.h"
#include "wire/incident.h"

namespace probing::incident {

using Json = nlohmann::ordered_json;

using Head = wire::IncidentHead;

struct Column {
  std::string name;
  table::Type type = table::Type::kInt64;

  bool operator==(const Column&) const = default;
};

struct TableHead {
  std::string name;
  std::vector<Column> columns;  // its own, then those of the process that a row is about
  std::uint64_t own = 0;        // how many are its own
  std::uint64_t rows = 0;
  std::uint64_t left_out = 0;  // older rows, for which there was no room
};

// What a reader takes; a writer stays below it.
inline constexpr std::uint64_t kMostFileBytes = 512U << 20;
inline constexpr std::uint64_t kMostIndexBytes = 16U << 20;
inline constexpr std::uint64_t kMostBlockBytes = 256U << 20;  // unpacked
inline constexpr std::uint64_t kMostBytes = 1U << 30;         // of all blocks, unpacked
inline constexpr std::uint64_t kMostCells = 64U << 20;        // of all tables
inline constexpr std::size_t kMostTables = 1000;
inline constexpr std::size_t kMostColumns = 80;

// Of bytes that were cut or changed by accident; no protection against intent.
inline std::uint64_t Checksum(std::string_view bytes) {
  std::uint64_t sum = 0xcbf29ce484222325;  // FNV-1a
  for (const char byte : bytes) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return sum;
}

}  // namespace probing::incident
