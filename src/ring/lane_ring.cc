#include "ring/lane_ring.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <limits>

#include "ring/words.h"

namespace probing::ring {

namespace {

// One block more than needed: while one is being filled again, `rows` others are still there.
std::uint64_t BlocksFor(std::uint64_t rows) {
  const std::uint64_t block_rows = BlockRowsFor(rows);
  return (rows + block_rows - 1) / block_rows + 1;
}

}  // namespace

std::uint64_t LaneRing::BytesToOpen(const TableShape& shape, std::uint64_t rows) {
  return BlocksOffset(BlocksFor(rows)) + BlockStride(shape.total_units, BlockRowsFor(rows));
}

int LaneRing::Open(SegmentFile* file, const TableShape* shape, std::uint64_t lane_id, std::uint64_t rows) {
  *this = LaneRing{};
  file_ = file;
  shape_ = shape;
  block_rows_ = BlockRowsFor(rows);
  blocks_ = static_cast<std::uint32_t>(BlocksFor(rows));
  stride_ = BlockStride(shape->total_units, block_rows_);
  const std::uint64_t blocks_at = BlocksOffset(blocks_);
  if (const int error = file->New(blocks_at + blocks_ * stride_, &segment_); error != 0) return error;
  if (const int error = file->Allocate(&segment_, BytesToOpen(*shape, rows)); error != 0) {
    file->Free(&segment_);
    return error;
  }
  for (std::uint32_t i = 0; i < shape->columns; ++i) column_at_[i] = shape->units[i] * (block_rows_ / 8);
  used_slots_ = 1;
  header()->lane_id = lane_id;
  header()->block_rows = block_rows_;
  header()->blocks = blocks_;
  last_ = 1;
  BeginBlock();
  file->Publish(segment_, SegmentKind::kLane, shape->id);
  return 0;
}

void LaneRing::Free(TableHeader* table) {
  if (!open()) return;
  const std::uint64_t written = written_;
  // A reader that copies now will find that nothing was alive.
  Store(&header()->first, 0);
  FenceRelease();
  file_->Free(&segment_);
  for (Heap& heap : heaps_) file_->Free(&heap.segment);
  *this = LaneRing{};
  Add(&table->gone_written, written);
  Add(&table->gone_overwritten, written);
}

LaneRing LaneRing::Retire() {
  LaneRing retired = *this;
  retired.heap_ = nullptr;
  *this = LaneRing{};
  return retired;
}

std::uint64_t LaneRing::allocated_bytes() const {
  std::uint64_t bytes = segment_.allocated;
  for (const Heap& heap : heaps_) bytes += heap.segment.allocated;
  return bytes;
}

bool LaneRing::Append(PreparedRow* row) {
  if (row_ == block_rows_) NextBlock();
  if (row->heap != 0) {
    if (!MakeHeapRoom(row->heap_bytes)) return false;
    PlaceTexts(row);
  }
  FenceRelease();  // strings before the cells that name them
  // In locals, because the compiler must assume that every store below could change the members.
  char* const block = block_;
  const std::uint64_t at = row_;
  const std::uint64_t unit = block_rows_ / 8;
  const std::uint64_t nulls = row->nulls;
  const std::uint64_t changed = row->changed;
  const std::uint64_t bools = shape_->bools;
  const std::uint32_t columns = shape_->columns;
  const Cell* const cells = row->cells;
  for (std::uint32_t i = 0; i < columns; ++i) {
    char* column = block + column_at_[i];
    if (Has(nulls, i)) {
      auto* validity = reinterpret_cast<std::uint64_t*>(column) + at / 64;
      Store(validity, Load(validity) & ~(1ULL << (at % 64)));
      continue;
    }
    const std::uint64_t value = Has(changed, i) ? row->bits[i] : cells[i].bits();
    if (Has(bools, i)) {
      Store(reinterpret_cast<std::uint8_t*>(column + unit) + at, value);
    } else {
      Store(reinterpret_cast<std::uint64_t*>(column + unit) + at, value);
    }
  }
  if (row->time_ns < min_time_) Store(&block_header_->min_time, min_time_ = row->time_ns);
  if (row->time_ns > max_time_) Store(&block_header_->max_time, max_time_ = row->time_ns);
  Store(&header()->written, ++written_);
  StoreRelease(&block_header_->state, last_ << kBlockNumberShift | ++row_);
  return true;
}

std::uint64_t LaneRing::number_in(std::uint32_t slot) const {
  return Load(&block_header(slot)->state) >> kBlockNumberShift;
}

// The next slot. At the end of those that have memory: the first one if it is free already, because
// long strings have pushed out its rows; else a new one, while the limit and the memory allow it;
// else the first one again, which is the oldest.
void LaneRing::NextBlock() {
  std::uint32_t next = slot_ + 1;
  if (next >= used_slots_) {
    if (number_in(0) >= first_ && next < blocks_ &&
        file_->Allocate(&segment_, BlocksOffset(blocks_) + (next + 1) * stride_) == 0) {
      used_slots_ = next + 1;
    } else {
      next = 0;
    }
  }
  const std::uint64_t there = number_in(next);
  while (first_ <= there && first_ <= last_) EvictFirst();
  ++last_;
  if (first_ == last_) first_slot_ = next;
  slot_ = next;
  BeginBlock();
}

void LaneRing::BeginBlock() {
  block_ = segment_.base + BlocksOffset(blocks_) + slot_ * stride_;
  block_header_ = block_header(slot_);
  row_ = 0;
  min_time_ = std::numeric_limits<std::int64_t>::max();
  max_time_ = std::numeric_limits<std::int64_t>::min();
  Store(&block_header_->state, 0);
  FenceRelease();
  Store(&block_header_->first_row, written_);
  Store(&block_header_->min_time, min_time_);
  Store(&block_header_->max_time, max_time_);
  Store(&block_header_->heap_start, heap_ == nullptr ? 0 : heap_->head);
  for (std::uint32_t i = 0; i < shape_->columns; ++i) {
    auto* validity = reinterpret_cast<std::uint64_t*>(block_ + column_at_[i]);
    for (std::uint32_t word = 0; word < block_rows_ / 64; ++word) Store(validity + word, ~0ULL);
  }
  Store(&header()->first, first_);
  StoreRelease(&block_header_->state, last_ << kBlockNumberShift);
  StoreRelease(&header()->last, last_);
}

// Everything of the oldest block may be overwritten after this, its strings too. `first` is
// published before that happens: it is what readers check after they have copied.
void LaneRing::EvictFirst() {
  const std::uint32_t slot = first_slot_;
  overwritten_ += Load(&block_header(slot)->state) & kBlockRowsMask;
  Store(&header()->overwritten, overwritten_);
  ++first_;
  Store(&header()->first, first_);
  FenceRelease();
  first_slot_ = slot + 1 < used_slots_ && number_in(slot + 1) == first_ ? slot + 1 : 0;
  if (heap_ == nullptr) return;
  if (first_ > last_) {
    heap_->tail = heap_->head;
  } else if (first_ > heap_->first_block) {
    heap_->tail = Load(&block_header(first_slot_)->heap_start);
  }
  for (Heap& heap : heaps_) {
    if (&heap != heap_ && heap.segment.base != nullptr && heap.last_block < first_) {
      file_->Free(&heap.segment);
      heap = Heap{};
    }
  }
}

}  // namespace probing::ring
