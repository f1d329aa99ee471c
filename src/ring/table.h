// Table: the writing side of one table. See arena.h for where they come from.
//
// Rows go to lanes. A lane belongs to a thread only for the moment of a write: it is taken with one
// compare-and-swap and never waited for. A thread begins with the lane it used last; when that is
// busy it tries the others, then adds one, and when the memory does not allow it the row is dropped
// and counted. So a thread may die, be cancelled or be interrupted by a signal handler that writes
// too, and nobody waits; and a Python program, whose threads take turns, gets along with one lane.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "ring/dictionary.h"
#include "ring/lane_ring.h"
#include "ring/schema.h"

namespace probing::ring {

struct TableOptions {
  std::string name;
  // The first is always a timestamp: when the row happened.
  std::vector<Column> columns;
  std::uint64_t rows = 10'000;  // each lane keeps at least as many
};

class Table {
 public:
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  // One row: cells[i] is for column i, columns from `count` on become NULL. A NULL in column 0 means
  // now. Integers are accepted where a double or timestamp is wanted, bools where an integer is,
  // strings and bytes for each other; everything else of the wrong type refuses the row.
  //
  // Thread-safe, wait-free, no lock and no allocation; async-signal-safe. System calls only when a
  // lane, a block or the dictionary grows.
  WriteStatus Write(const Cell* cells, std::uint32_t count) {
    return WriteSet(cells, count < kMaxColumns ? (1ULL << count) - 1 : ~0ULL);
  }
  // The same with one bit for each cell that is there; the others are not looked at.
  WriteStatus WriteSet(const Cell* cells, std::uint64_t set);

  // A text that will be written again and again into a column, looked up once. As good as a row that has the
  // text, in this table; the text itself, borrowed, when the dictionary has no room for it.
  // REQUIRES: the column is one of text. Thread-safe.
  Cell Intern(std::uint32_t column, std::string_view text);

  // From the next rows on. A lane of the old size is readable until the new one begins to
  // overwrite, then it goes. Any thread but a signal handler's.
  void SetRows(std::uint64_t rows);

  const std::string& name() const { return options_.name; }
  const std::vector<Column>& columns() const { return options_.columns; }

 private:
  friend class Arena;

  // One page, made when it is first needed and never moved or freed while the table lives, so that
  // the busy flag can be tried at any time by anybody.
  struct alignas(128) Lane {
    std::atomic<bool> busy{true};
    std::uint64_t settings = 0;  // of the table when `ring` was made
    LaneRing ring;
    LaneRing old;  // the ring before the settings changed

    bool TryTake() {
      return !busy.load(std::memory_order_relaxed) && !busy.exchange(true, std::memory_order_acquire);
    }
    void Release() { busy.store(false, std::memory_order_release); }
  };
  static constexpr std::size_t kLanePageBytes = 4096;
  static constexpr std::size_t kHints = 64;

  Table(TableOptions options, std::uint32_t id, SegmentFile* file, Dictionary* dictionary,
        std::atomic<std::uint64_t>* next_lane_id);
  // Writes the schema and makes the first lane. 0 or an errno.
  int Open();

  bool Prepare(const Cell* cells, std::uint64_t set, PreparedRow* row);
  bool PrepareCell(std::uint32_t column, PreparedRow* row);
  bool PrepareText(std::uint32_t column, PreparedRow* row);
  // Where the dictionary has it, or Dictionary::kNone: too long, or no room.
  std::uint64_t EntryOf(std::uint32_t column, std::string_view text);
  Lane* TakeLane();
  Lane* TakeOtherLane(std::atomic<std::uint8_t>* hint);
  Lane* TakeOpenLane();
  Lane* AddLane(std::uint32_t* index);
  // Makes the lane's ring anew when the settings have changed or there is none.
  // REQUIRES: the lane is taken.
  bool Renew(Lane* lane);
  // The lane with most memory that nobody writes to, taken; null when there is none.
  Lane* TakeLargest(std::uint64_t* bytes);
  void FreeLane(Lane* lane);
  void Close();

  TableOptions options_;
  TableShape shape_;
  SegmentFile* file_;
  Dictionary* dictionary_;
  std::atomic<std::uint64_t>* next_lane_id_;
  Segment segment_;
  TableHeader* header_ = nullptr;
  std::atomic<std::uint64_t> rows_;
  std::atomic<std::uint64_t> settings_{1};  // grows with every change
  std::atomic<std::uint32_t> lane_count_{0};
  std::array<std::atomic<Lane*>, kMaxLanes> lanes_{};
  std::array<std::atomic<std::uint8_t>, kHints> hints_{};  // by thread: the lane used last
  std::array<std::atomic<std::uint64_t>, kMaxColumns> interned_bytes_{};
};

// A row being put together on the stack. Nothing of the ring is touched or held before Commit(), so
// what happens in between (an exception, a fork, a long computation) concerns nobody.
//
//   RowWriter row(table);
//   row.SetInt(1, step);
//   row.SetString(2, name);
//   row.Commit();
class RowWriter {
 public:
  explicit RowWriter(Table& table) : table_(table) {}

  // REQUIRES: column < table.columns().size(). What is not set is NULL, or now for column 0.
  void Set(std::uint32_t column, Cell cell) {
    cells_[column] = cell;
    set_ |= 1ULL << column;
  }
  void SetTime(std::int64_t ns) { Set(0, Cell::Timestamp(ns)); }
  void SetInt(std::uint32_t column, std::int64_t value) { Set(column, Cell::Int(value)); }
  void SetDouble(std::uint32_t column, double value) { Set(column, Cell::Double(value)); }
  void SetBool(std::uint32_t column, bool value) { Set(column, Cell::Bool(value)); }
  void SetTimestamp(std::uint32_t column, std::int64_t ns) { Set(column, Cell::Timestamp(ns)); }
  // Borrowed until Commit().
  void SetString(std::uint32_t column, std::string_view text) { Set(column, Cell::String(text)); }
  void SetBytes(std::uint32_t column, std::string_view bytes) { Set(column, Cell::Bytes(bytes)); }
  void SetNull(std::uint32_t column) { set_ &= ~(1ULL << column); }

  WriteStatus Commit() { return table_.WriteSet(cells_, set_); }

 private:
  Table& table_;
  std::uint64_t set_ = 0;
  Cell cells_[kMaxColumns];
};

}  // namespace probing::ring
