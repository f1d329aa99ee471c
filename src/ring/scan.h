// Scan: the rows of one table, block after block.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "ring/batch.h"
#include "ring/format.h"
#include "ring/schema.h"
#include "ring/source.h"
#include "ring/texts.h"

namespace probing::ring {

// How far somebody has read a table: for each lane the rows that came before the next one. Lanes
// have numbers that never return, so a Cursor fits one ring file only.
struct Cursor {
  std::map<std::uint64_t, std::uint64_t> next_row;
  std::uint64_t missed = 0;  // rows overwritten before they were read
};

// One of several scans that read a table together: each takes every count-th block.
struct Share {
  std::uint32_t index = 0;
  std::uint32_t count = 1;
};

struct ScanOptions {
  std::vector<std::uint32_t> columns;  // which, in the order of the batch
  // Blocks without a row in this range (both ends included) are left out. Rows outside it can
  // still come, from blocks that have others.
  std::int64_t min_time_ns = std::numeric_limits<std::int64_t>::min();
  std::int64_t max_time_ns = std::numeric_limits<std::int64_t>::max();
  // Only rows behind it; moves along with every batch, so that no row ever comes twice. Borrowed.
  Cursor* cursor = nullptr;
  Share share;  // when it is not the only one, what the cursor has missed means nothing
};

struct ScanStats {
  std::uint64_t blocks = 0;     // read
  std::uint64_t pruned = 0;     // left out by time, without looking at a row
  std::uint64_t overtaken = 0;  // overwritten while they were read, and therefore left out
  std::uint64_t bad_cells = 0;  // texts that make no sense, shown as NULL
};

class Scan {
 public:
  // False at the end. The batch is valid until the next call, its short strings as long as the
  // reader.
  bool Next(Batch* batch);
  const ScanStats& stats() const { return stats_; }

 private:
  friend class Reader;

  struct Lane {
    SegmentEntry entry;
    std::uint64_t lane_id = 0;
    std::uint32_t block_rows = 0;
    std::uint32_t blocks = 0;
    std::uint64_t stride = 0;
  };
  struct Block {
    std::uint64_t number = 0;
    std::uint32_t slot = 0;
  };

  Scan(Source* source, Texts* texts, const std::vector<Column>& columns, ScanOptions options);
  void AddLane(const SegmentEntry& entry);
  void ListBlocks();
  bool TakeBudget(std::uint64_t bytes);
  bool ReadBlock(const Lane& lane, const Block& block, Batch* batch);
  void CopyColumn(const Lane& lane, std::uint64_t block_at, std::uint32_t begin, std::uint32_t end,
                  std::uint32_t column, BatchColumn* to) const;
  // How many cells made no sense; they became NULL.
  std::uint64_t ResolveTexts(std::uint32_t table, Batch* batch);

  Source* source_;
  Texts* texts_;
  // Entries of the dictionary met before, which never change: most texts are among the last few
  // hundred different ones. No entry is cell 0.
  struct Met {
    std::uint64_t cell = 0;
    std::string_view text;
  };
  std::array<Met, 512> met_;
  ScanOptions options_;
  ScanStats stats_;
  std::uint64_t budget_ = 0;  // bytes it may still read
  std::vector<ColumnType> types_;
  std::vector<std::uint64_t> units_;
  std::uint64_t total_units_ = 0;
  std::vector<Lane> lanes_;
  std::size_t lane_ = 0;        // the next one
  std::vector<Block> pending_;  // of the lane before
  std::size_t block_ = 0;
};

}  // namespace probing::ring
