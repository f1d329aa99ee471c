// The hot half of Table: from cells to a row in a lane.
#include "base/clock.h"
#include "ring/table.h"
#include "ring/words.h"

namespace probing::ring {
namespace {

// Without memory for another lane one is soon free again, unless its thread was put aside.
constexpr int kTakeRounds = 8;

// The cell as a value of the column, for every type but text. False when it does not fit.
inline bool Convert(const Cell& cell, ColumnType type, std::uint64_t* bits) {
  const Cell::Kind kind = cell.kind();
  *bits = cell.bits();
  switch (type) {
    case ColumnType::kInt64:
      return kind == Cell::Kind::kInt64 || kind == Cell::Kind::kBool;
    case ColumnType::kTimestamp:
      return kind == Cell::Kind::kTimestamp || kind == Cell::Kind::kInt64;
    case ColumnType::kBool:
      return kind == Cell::Kind::kBool;
    case ColumnType::kDouble:
      if (kind == Cell::Kind::kInt64) *bits = Cell::Double(static_cast<double>(cell.integer())).bits();
      return kind == Cell::Kind::kDouble || kind == Cell::Kind::kInt64;
    default:
      return false;
  }
}

// Different for every thread, without a call.
inline std::uint64_t ThreadHash() {
  return reinterpret_cast<std::uint64_t>(__builtin_thread_pointer()) * 0x9e3779b97f4a7c15;
}

}  // namespace

WriteStatus Table::WriteSet(const Cell* cells, std::uint64_t set) {
  if (!file_->guard().Armed()) return WriteStatus::kOff;
  PreparedRow row;
  if (!Prepare(cells, set, &row)) {
    Add(&header_->refused, 1);
    return WriteStatus::kRefused;
  }
  Lane* lane = TakeLane();
  bool written = false;
  if (lane != nullptr) {
    if (lane->ring.at_block_end() && !Renew(lane)) {
      lane->Release();
      lane = TakeOpenLane();
    }
  }
  if (lane != nullptr) {
    written = lane->ring.Append(&row);
    lane->Release();
  }
  if (written) return WriteStatus::kWritten;
  Add(&header_->dropped, 1);
  return WriteStatus::kDropped;
}

bool Table::Prepare(const Cell* cells, std::uint64_t set, PreparedRow* row) {
  row->cells = cells;
  row->changed = 1;
  row->nulls = ~set & ~1ULL;
  row->heap = 0;
  row->heap_bytes = 0;
  const std::uint32_t columns = shape_.columns;
  for (std::uint32_t i = 1; i < columns; ++i) {
    if ((set >> i & 1) == 0) continue;
    if (static_cast<std::uint8_t>(cells[i].kind()) != shape_.kinds[i] && !PrepareCell(i, row)) return false;
  }
  // Last, so that rows are stamped when they are written.
  if ((set & 1) == 0 || cells[0].kind() == Cell::Kind::kNull) {
    row->time_ns = WallNs();
  } else if (std::uint64_t bits = 0; Convert(cells[0], ColumnType::kTimestamp, &bits)) {
    row->time_ns = static_cast<std::int64_t>(bits);
  } else {
    return false;
  }
  row->bits[0] = static_cast<std::uint64_t>(row->time_ns);
  return true;
}

// A cell that is not the column's value as it stands.
bool Table::PrepareCell(std::uint32_t column, PreparedRow* row) {
  const Cell& cell = row->cells[column];
  const std::uint64_t bit = 1ULL << column;
  if (cell.kind() == Cell::Kind::kNull) {
    row->nulls |= bit;
    return true;
  }
  row->changed |= bit;
  if ((shape_.texts & bit) == 0) return Convert(cell, shape_.types[column], &row->bits[column]);
  return PrepareText(column, row);
}

inline std::uint64_t Table::EntryOf(std::uint32_t column, std::string_view text) {
  return text.size() > kMaxInterned ? Dictionary::kNone : dictionary_->Intern(text, &interned_bytes_[column]);
}

Cell Table::Intern(std::uint32_t column, std::string_view text) {
  if (!file_->guard().Armed()) return Cell::String(text);
  const std::uint64_t entry = EntryOf(column, text);
  return entry == Dictionary::kNone ? Cell::String(text) : Cell::Interned(entry);
}

bool Table::PrepareText(std::uint32_t column, PreparedRow* row) {
  const Cell& cell = row->cells[column];
  if (cell.kind() != Cell::Kind::kString && cell.kind() != Cell::Kind::kBytes) return false;
  row->bits[column] = EntryOf(column, cell.text());
  if (row->bits[column] != Dictionary::kNone) return true;
  row->heap |= 1ULL << column;
  row->heap_bytes += EntryBytes(cell.length());
  return cell.length() <= kMaxValueBytes;
}

// Null when every lane is busy and none can be added.
Table::Lane* Table::TakeLane() {
  static_assert(kHints == 64);
  std::atomic<std::uint8_t>& hint = hints_[ThreadHash() >> 58];
  Lane* lane = lanes_[hint.load(std::memory_order_relaxed)].load(std::memory_order_acquire);
  if (lane != nullptr && lane->TryTake()) return lane;
  return TakeOtherLane(&hint);
}

Table::Lane* Table::TakeOtherLane(std::atomic<std::uint8_t>* hint) {
  for (int round = 0; round < kTakeRounds; ++round) {
    const std::uint32_t count = lane_count_.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) {
      Lane* lane = lanes_[i].load(std::memory_order_acquire);
      if (!lane->TryTake()) continue;
      hint->store(static_cast<std::uint8_t>(i), std::memory_order_relaxed);
      return lane;
    }
    // A fork or Close() may have come in between; then nothing may be made anew.
    if (!file_->guard().Armed()) return nullptr;
    std::uint32_t added = 0;
    if (Lane* lane = AddLane(&added); lane != nullptr) {
      hint->store(static_cast<std::uint8_t>(added), std::memory_order_relaxed);
      return lane;
    }
  }
  return nullptr;
}

// For when there is no memory to make a ring for the lane at hand.
Table::Lane* Table::TakeOpenLane() {
  const std::uint32_t count = lane_count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    Lane* lane = lanes_[i].load(std::memory_order_acquire);
    if (!lane->TryTake()) continue;
    if (lane->ring.open()) return lane;
    lane->Release();
  }
  return nullptr;
}

}  // namespace probing::ring
