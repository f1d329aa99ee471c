// LaneRing: the blocks of one lane and the heap of its long strings.
//
// One thread at a time (see Lane in table.h); readers in other processes look on. Blocks get memory
// when they are first used, so that a table of ten rows costs one block. When the limit or the
// memory is reached, the oldest block is overwritten.
#pragma once

#include <array>
#include <cstdint>

#include "ring/cell.h"
#include "ring/format.h"
#include "ring/segment_file.h"

namespace probing::ring {

// What all lanes of a table have in common.
struct TableShape {
  std::uint32_t id = 0;
  std::uint32_t columns = 0;
  std::uint32_t total_units = 0;
  std::uint64_t bools = 0;  // one bit per column
  std::uint64_t texts = 0;
  std::array<ColumnType, kMaxColumns> types{};
  std::array<std::uint8_t, kMaxColumns> kinds{};   // of cells that are stored as they stand
  std::array<std::uint32_t, kMaxColumns> units{};  // where a column begins in a block
};

// A row as the columns want it. Most cells are that already, so only the others are in `bits`.
struct PreparedRow {
  const Cell* cells;
  std::int64_t time_ns;
  std::uint64_t nulls;       // one bit per column
  std::uint64_t changed;     // columns whose value is in `bits` and not in `cells`
  std::uint64_t heap;        // of these, columns whose text goes to the heap
  std::uint64_t heap_bytes;  // of these, as entries
  std::uint64_t bits[kMaxColumns];
};

class LaneRing {
 public:
  // What Open() takes of the budget.
  static std::uint64_t BytesToOpen(const TableShape& shape, std::uint64_t rows);
  // With memory for one block. Returns 0 or an errno.
  int Open(SegmentFile* file, const TableShape* shape, std::uint64_t lane_id, std::uint64_t rows);
  bool open() const { return segment_.base != nullptr; }

  // False when there is no memory for its strings. No lock, and no system call except when a block
  // or the heap is used for the first time.
  bool Append(PreparedRow* row);

  // Gives everything back; what was counted here moves to the table. Does nothing when not open.
  void Free(TableHeader* table);

  // The same memory under another owner, which can only Free() it. This one is closed then.
  LaneRing Retire();

  // Whether rows were overwritten already.
  bool wrapped() const { return overwritten_ != 0; }
  // Whether the next row begins a new block.
  bool at_block_end() const { return row_ == block_rows_; }
  std::uint64_t allocated_bytes() const;

 private:
  // A ring of bytes. `head` and `tail` only grow; a position is either of them % capacity.
  struct Heap {
    Segment segment;
    std::uint64_t capacity = 0;  // less than the segment when memory ran out in the first round
    std::uint64_t head = 0;
    std::uint64_t tail = 0;         // of the oldest block alive
    std::uint64_t first_block = 0;  // that used it
    std::uint64_t last_block = 0;   // set when another heap has taken over
  };
  static constexpr std::uint64_t kFirstHeapBytes = 64U << 10;
  static constexpr std::uint64_t kHeapGrowth = 4;
  static constexpr std::size_t kMaxHeaps = 8;  // 64 KB, growing by 4, reach kMaxHeapBytes after six

  static bool Has(std::uint64_t columns, std::uint32_t column) { return (columns >> column & 1) != 0; }

  LaneHeader* header() const { return segment_.At<LaneHeader>(0); }
  BlockHeader* block_header(std::uint32_t slot) const {
    return segment_.At<BlockHeader>(sizeof(LaneHeader)) + slot;
  }
  std::uint64_t number_in(std::uint32_t slot) const;

  void NextBlock();
  void BeginBlock();
  void EvictFirst();

  bool MakeHeapRoom(std::uint64_t bytes);
  bool HeapFits(std::uint64_t bytes);
  bool GrowHeap(std::uint64_t bytes);
  void PlaceTexts(PreparedRow* row);

  SegmentFile* file_ = nullptr;
  const TableShape* shape_ = nullptr;
  Segment segment_;
  std::uint64_t stride_ = 0;
  std::uint32_t block_rows_ = 0;
  std::uint32_t blocks_ = 0;

  // The block being filled.
  char* block_ = nullptr;
  BlockHeader* block_header_ = nullptr;
  std::uint32_t row_ = 0;
  std::uint32_t slot_ = 0;
  std::int64_t min_time_ = 0;
  std::int64_t max_time_ = 0;

  std::uint64_t first_ = 1;  // number of the oldest block alive
  std::uint64_t last_ = 0;
  std::uint32_t first_slot_ = 0;
  std::uint32_t used_slots_ = 0;  // blocks that have memory
  std::uint64_t written_ = 0;
  std::uint64_t overwritten_ = 0;
  std::array<std::uint32_t, kMaxColumns> column_at_{};  // in a block

  Heap* heap_ = nullptr;  // the current one
  std::array<Heap, kMaxHeaps> heaps_{};
};

}  // namespace probing::ring
