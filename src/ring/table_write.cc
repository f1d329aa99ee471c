// The hot half of Table: from cells to a row in a lane.
#include <pthread.h>

#include "base/clock.h"
#include "ring/table.h"
#include "ring/words.h"

namespace probing::ring {
namespace {

// Without memory for another lane one is soon free again, unless its thread was put aside.
constexpr int kTakeRounds = 8;

inline std::uint64_t BitsOf(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// The cell as a value of the column, for every type but text. False when it does not fit.
inline bool Convert(const Cell& cell, ColumnType type, std::uint64_t* bits) {
  switch (type) {
    case ColumnType::kInt64:
      *bits = static_cast<std::uint64_t>(cell.integer);
      return cell.kind == Cell::Kind::kInt64 || cell.kind == Cell::Kind::kBool;
    case ColumnType::kTimestamp:
      *bits = static_cast<std::uint64_t>(cell.integer);
      return cell.kind == Cell::Kind::kTimestamp || cell.kind == Cell::Kind::kInt64;
    case ColumnType::kBool:
      *bits = cell.integer != 0 ? 1 : 0;
      return cell.kind == Cell::Kind::kBool;
    case ColumnType::kDouble:
      if (cell.kind == Cell::Kind::kDouble) {
        *bits = BitsOf(cell.real);
        return true;
      }
      *bits = BitsOf(static_cast<double>(cell.integer));
      return cell.kind == Cell::Kind::kInt64;
    default:
      return false;
  }
}

}  // namespace

WriteStatus Table::Write(const Cell* cells, std::uint32_t count) {
  if (!file_->guard().Armed()) return WriteStatus::kOff;
  PreparedRow row;
  if (!Prepare(cells, count < shape_.columns ? count : shape_.columns, &row)) {
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

bool Table::Prepare(const Cell* cells, std::uint32_t count, PreparedRow* row) {
  row->cells = cells;
  row->heap = 0;
  row->heap_bytes = 0;
  row->nulls = count < kMaxColumns ? ~0ULL << count : 0;
  for (std::uint32_t i = 1; i < count; ++i) {
    if (cells[i].kind == Cell::Kind::kNull) {
      row->nulls |= 1ULL << i;
    } else if ((shape_.texts >> i & 1) != 0) {
      if (!PrepareText(i, row)) return false;
    } else if (!Convert(cells[i], shape_.types[i], &row->bits[i])) {
      return false;
    }
  }
  // Last, so that rows are stamped when they are written.
  if (count == 0 || cells[0].kind == Cell::Kind::kNull) {
    row->bits[0] = static_cast<std::uint64_t>(WallNs());
  } else if (!Convert(cells[0], ColumnType::kTimestamp, &row->bits[0])) {
    return false;
  }
  row->nulls &= ~1ULL;
  row->time_ns = static_cast<std::int64_t>(row->bits[0]);
  return true;
}

bool Table::PrepareText(std::uint32_t column, PreparedRow* row) {
  const Cell& cell = row->cells[column];
  if (cell.kind != Cell::Kind::kString && cell.kind != Cell::Kind::kBytes) return false;
  if (cell.length <= kMaxInterned) {
    row->bits[column] = dictionary_->Intern(cell.text(), &interned_bytes_[column]);
    if (row->bits[column] != Dictionary::kNone) return true;
  }
  row->heap |= 1ULL << column;
  row->heap_bytes += EntryBytes(cell.length);
  return cell.length <= kMaxValueBytes;
}

// Null when every lane is busy and none can be added.
Table::Lane* Table::TakeLane() {
  // Addresses of threads differ in their upper bits only.
  const std::uint64_t thread = static_cast<std::uint64_t>(pthread_self()) * 0x9e3779b97f4a7c15;
  std::atomic<std::uint8_t>& hint = hints_[thread >> 58];
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
