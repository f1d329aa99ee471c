// BatchColumns: from a batch of a ring to the columns that somebody asked for.
//
// Columns are matched by name; what the ring has not got, and what cannot be the declared type, is
// NULL. Strings are UTF-8 afterwards, whatever the ring has.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ring/batch.h"
#include "ring/reader.h"
#include "table/source.h"
#include "table/stored.h"
#include "table/text.h"

namespace probing::table {

// Strings that were found to be UTF-8, in the form they are written in. Equal strings of one batch
// mostly have one address, and looking there is cheaper than looking at the bytes. Forgotten with
// each batch.
class CheckedStrings {
 public:
  // Null when it is not known.
  const Text* Find(std::string_view text) const {
    const Known& known = known_[Slot(text)];
    const bool same = known.text.data() == text.data() && known.text.size() == text.size();
    return same ? &known.written : nullptr;
  }
  void Add(std::string_view text) { known_[Slot(text)] = {text, Text(text)}; }
  void Clear() { known_.fill({}); }

 private:
  struct Known {
    std::string_view text;
    Text written;
  };
  static constexpr std::size_t kSize = 512;
  static std::size_t Slot(std::string_view text) {
    return (reinterpret_cast<std::uintptr_t>(text.data()) >> 3) % kSize;
  }
  std::array<Known, kSize> known_{};
};

class BatchColumns {
 public:
  // `columns` are indexes into table.columns.
  BatchColumns(const ring::TableInfo& info, const Table& table, const std::vector<std::size_t>& columns);

  // What the scan has to ask for.
  const std::vector<std::uint32_t>& ring_columns() const { return ring_columns_; }

  // Before the first Put() of each batch.
  void NewBatch();
  // Writes rows [at, at + count) of the batch. What was written is good until NewBatch().
  void Put(const ring::Batch& batch, std::size_t at, std::size_t count, std::span<ColumnOut> columns);

 private:
  // Where a requested column comes from.
  struct Pick {
    std::size_t column = 0;  // of the batch
    Type from{};
    Type to{};
    bool exists = false;
  };

  void PutColumn(const ring::Batch& batch, std::size_t at, std::size_t count, const Pick& pick,
                 ColumnOut& out);
  void PutTexts(const ring::Batch& batch, std::size_t at, std::size_t count, const Pick& pick,
                ColumnOut& out);
  Text Checked(std::string_view text);

  std::vector<Pick> picks_;
  std::vector<std::uint32_t> ring_columns_;
  CheckedStrings checked_;
  std::deque<std::string> made_;  // texts of this batch that are not in the ring
};

}  // namespace probing::table
