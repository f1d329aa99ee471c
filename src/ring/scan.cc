#include "ring/scan.h"

#include <algorithm>
#include <cstring>

namespace probing::ring {
namespace {

constexpr std::uint64_t kSlackBytes = 16U << 20;  // what a writer adds meanwhile

}  // namespace

Scan::Scan(Source* source, Texts* texts, const std::vector<Column>& columns, ScanOptions options)
    : source_(source), texts_(texts), options_(std::move(options)) {
  for (const Column& column : columns) {
    types_.push_back(column.type);
    units_.push_back(total_units_);
    total_units_ += ColumnUnits(column.type);
  }
  budget_ = 2 * source->allocated() + kSlackBytes;
}

// What a writer has written has memory, and is read once. A file that is all holes and claims rows everywhere
// must not have us fill it.
bool Scan::TakeBudget(std::uint64_t bytes) {
  if (bytes > budget_) return false;
  budget_ -= bytes;
  return true;
}

// The numbers of a lane are read once, here, and checked against its size.
void Scan::AddLane(const SegmentEntry& entry) {
  Lane lane;
  lane.entry = entry;
  lane.lane_id = source_->Get<std::uint64_t>(entry.offset + offsetof(LaneHeader, lane_id));
  lane.block_rows = source_->Get<std::uint32_t>(entry.offset + offsetof(LaneHeader, block_rows));
  lane.blocks = source_->Get<std::uint32_t>(entry.offset + offsetof(LaneHeader, blocks));
  if (lane.block_rows < kMinBlockRows || lane.block_rows > kMaxBlockRows || lane.block_rows % 64 != 0) return;
  lane.stride = BlockStride(total_units_, lane.block_rows);
  if (entry.size < sizeof(LaneHeader) ||
      lane.blocks > (entry.size - sizeof(LaneHeader)) / (sizeof(BlockHeader) + lane.stride)) {
    return;
  }
  if (!TakeBudget(sizeof(LaneHeader) + lane.blocks * sizeof(BlockHeader))) return;
  lanes_.push_back(lane);
}

bool Scan::Next(Batch* batch) {
  for (;;) {
    while (block_ < pending_.size()) {
      const Block block = pending_[block_++];
      if (ReadBlock(lanes_[lane_ - 1], block, batch)) {
        ++stats_.blocks;
        return true;
      }
    }
    if (lane_ == lanes_.size()) return false;
    ++lane_;
    ListBlocks();
  }
}

// What is alive in the lane now, the oldest first.
void Scan::ListBlocks() {
  pending_.clear();
  block_ = 0;
  const Lane& lane = lanes_[lane_ - 1];
  const auto first = source_->GetAcquire<std::uint64_t>(lane.entry.offset + offsetof(LaneHeader, first));
  if (first == 0) return;
  for (std::uint32_t slot = 0; slot < lane.blocks; ++slot) {
    const std::uint64_t at = lane.entry.offset + sizeof(LaneHeader) + slot * sizeof(BlockHeader);
    const auto state = source_->Get<std::uint64_t>(at + offsetof(BlockHeader, state));
    const std::uint64_t number = state >> kBlockNumberShift;
    if (number % options_.share.count != options_.share.index) continue;
    if (number >= first && (state & kBlockRowsMask) != 0) pending_.push_back(Block{number, slot});
  }
  std::sort(pending_.begin(), pending_.end(),
            [](const Block& a, const Block& b) { return a.number < b.number; });
}

bool Scan::ReadBlock(const Lane& lane, const Block& block, Batch* batch) {
  const std::uint64_t header_at = lane.entry.offset + sizeof(LaneHeader) + block.slot * sizeof(BlockHeader);
  const auto state = source_->GetAcquire<std::uint64_t>(header_at + offsetof(BlockHeader, state));
  const auto rows = static_cast<std::uint32_t>(state & kBlockRowsMask);
  if (state >> kBlockNumberShift != block.number || rows > lane.block_rows) {
    ++stats_.overtaken;
    return false;
  }
  const auto first_row = source_->Get<std::uint64_t>(header_at + offsetof(BlockHeader, first_row));
  const auto min_time = source_->Get<std::int64_t>(header_at + offsetof(BlockHeader, min_time));
  const auto max_time = source_->Get<std::int64_t>(header_at + offsetof(BlockHeader, max_time));
  std::uint64_t begin = 0;
  std::uint64_t expected = 0;
  if (options_.cursor != nullptr) {
    const auto known = options_.cursor->next_row.find(lane.lane_id);
    if (known != options_.cursor->next_row.end()) expected = known->second;
    if (expected > first_row) begin = std::min<std::uint64_t>(expected - first_row, rows);
  }
  const bool pruned = max_time < options_.min_time_ns || min_time > options_.max_time_ns;
  if (begin >= rows && !pruned) return false;

  std::uint64_t bad_cells = 0;
  if (!pruned && !TakeBudget(lane.stride)) return false;
  if (!pruned) {
    batch->rows_ = rows - begin;
    batch->lane_id_ = lane.lane_id;
    batch->first_row_ = first_row + begin;
    batch->columns_.resize(options_.columns.size());
    const std::uint64_t block_at = lane.entry.offset + BlocksOffset(lane.blocks) + block.slot * lane.stride;
    for (std::size_t i = 0; i < options_.columns.size(); ++i) {
      CopyColumn(lane, block_at, static_cast<std::uint32_t>(begin), rows, options_.columns[i],
                 &batch->columns_[i]);
    }
    FenceAcquire();  // what a cell names was there before the cell
    bad_cells = ResolveTexts(lane.entry.table, batch);
  }

  // The writer moves `first` before it touches anything of a block it reuses. If it has not moved
  // past this block by now, nothing of what was copied was overwritten.
  FenceAcquire();
  const auto first = source_->Get<std::uint64_t>(lane.entry.offset + offsetof(LaneHeader, first));
  if (first == 0 || first > block.number) {
    ++stats_.overtaken;
    return false;
  }
  if (options_.cursor != nullptr) {
    if (first_row > expected) options_.cursor->missed += first_row - expected;
    options_.cursor->next_row[lane.lane_id] = std::max(expected, first_row + rows);
  }
  stats_.bad_cells += bad_cells;
  if (pruned) ++stats_.pruned;
  return !pruned;
}

void Scan::CopyColumn(const Lane& lane, std::uint64_t block_at, std::uint32_t begin, std::uint32_t end,
                      std::uint32_t column, BatchColumn* to) const {
  const std::uint64_t unit = lane.block_rows / 8;
  const std::uint64_t validity_at = block_at + units_[column] * unit;
  const std::uint64_t values_at = validity_at + unit;
  const std::uint32_t rows = end - begin;
  to->type = types_[column];

  const std::uint32_t shift = begin % 64;
  const std::uint32_t words = (rows + 63) / 64;
  to->validity.assign(words + 1, 0);
  source_->Copy(validity_at + begin / 64 * 8, (end + 63) / 64 - begin / 64, to->validity.data());
  if (shift != 0) {
    for (std::uint32_t i = 0; i < words; ++i) {
      to->validity[i] = to->validity[i] >> shift | to->validity[i + 1] << (64 - shift);
    }
  }
  to->validity.resize(words);
  if (rows % 64 != 0) to->validity.back() &= (1ULL << (rows % 64)) - 1;

  if (to->type != ColumnType::kBool) {
    source_->Copy(values_at + begin * 8ULL, rows, to->values.Reserve(rows * 8ULL));
    return;
  }
  const std::uint32_t skip = begin % 8;
  const std::uint64_t copied = (end + 7) / 8 - begin / 8;
  unsigned char* bytes = to->values.Reserve(copied * 8);
  source_->Copy(values_at + begin / 8 * 8, copied, bytes);
  if (skip != 0) std::memmove(bytes, bytes + skip, rows);
  for (std::uint32_t i = 0; i < rows; ++i) bytes[i] &= 1;  // a bool that is neither is a trap
}

std::uint64_t Scan::ResolveTexts(std::uint32_t table, Batch* batch) {
  struct Long {
    std::size_t column;
    std::size_t row;
    std::size_t end;  // in batch->heap_
  };
  std::vector<Long> longs;
  std::uint64_t bad_cells = 0;
  batch->heap_.clear();
  texts_->ForgetHeaps();
  for (std::size_t c = 0; c < batch->columns_.size(); ++c) {
    BatchColumn& column = batch->columns_[c];
    if (!IsText(column.type)) continue;
    column.texts.resize(batch->rows_);
    const auto* cells = column.values.As<std::uint64_t>();
    for (std::size_t row = 0; row < batch->rows_; ++row) {
      std::string_view& text = column.texts[row];
      if ((column.validity[row / 64] >> (row % 64) & 1) == 0) {
        text = {};
        continue;
      }
      const std::uint64_t cell = cells[row];
      Met& met = met_[cell % met_.size()];
      if (met.cell == cell) {
        text = met.text;
        continue;
      }
      text = {};
      bool good = false;
      if ((cell & kHeapFlag) == 0) {
        good = texts_->Interned(cell, &text);
        if (good) met = {cell, text};
      } else if ((good = texts_->CopyFromHeap(cell, table, &batch->heap_))) {
        longs.push_back(Long{c, row, batch->heap_.size()});
      }
      if (good) continue;
      column.validity[row / 64] &= ~(1ULL << (row % 64));
      ++bad_cells;
    }
  }
  // Only now does the buffer stay where it is.
  std::size_t begin = 0;
  for (const Long& text : longs) {
    batch->columns_[text.column].texts[text.row] =
        std::string_view(batch->heap_.data() + begin, text.end - begin);
    begin = text.end;
  }
  return bad_cells;
}

}  // namespace probing::ring
