#include "ring/table.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "ring/words.h"

namespace probing::ring {
namespace {

constexpr int kCloseTries = 1000;

// Of the cells that a column takes as they are. Text has to be put somewhere first.
std::uint8_t KindOf(ColumnType type) {
  switch (type) {
    case ColumnType::kInt64:
      return static_cast<std::uint8_t>(Cell::Kind::kInt64);
    case ColumnType::kDouble:
      return static_cast<std::uint8_t>(Cell::Kind::kDouble);
    case ColumnType::kBool:
      return static_cast<std::uint8_t>(Cell::Kind::kBool);
    case ColumnType::kTimestamp:
      return static_cast<std::uint8_t>(Cell::Kind::kTimestamp);
    default:
      return static_cast<std::uint8_t>(Cell::Kind::kInterned);
  }
}

}  // namespace

Table::Table(TableOptions options, std::uint32_t id, SegmentFile* file, Dictionary* dictionary,
             std::atomic<std::uint64_t>* next_lane_id)
    : options_(std::move(options)),
      file_(file),
      dictionary_(dictionary),
      next_lane_id_(next_lane_id),
      rows_(options_.rows) {
  static_assert(sizeof(Lane) <= kLanePageBytes);
  shape_.id = id;
  shape_.columns = static_cast<std::uint32_t>(options_.columns.size());
  for (std::uint32_t i = 0; i < shape_.columns; ++i) {
    const ColumnType type = options_.columns[i].type;
    shape_.types[i] = type;
    shape_.kinds[i] = KindOf(type);
    shape_.units[i] = shape_.total_units;
    shape_.total_units += ColumnUnits(type);
    if (type == ColumnType::kBool) shape_.bools |= 1ULL << i;
    if (IsText(type)) shape_.texts |= 1ULL << i;
  }
}

int Table::Open() {
  const std::uint64_t bytes = sizeof(TableHeader) + shape_.columns * sizeof(ColumnEntry);
  if (const int error = file_->New(bytes, &segment_); error != 0) return error;
  if (const int error = file_->Allocate(&segment_, bytes); error != 0) return error;
  header_ = segment_.At<TableHeader>(0);
  std::memcpy(header_->name, options_.name.data(), options_.name.size());
  header_->id = shape_.id;
  header_->columns = shape_.columns;
  header_->rows_limit = options_.rows;
  for (std::uint32_t i = 0; i < shape_.columns; ++i) {
    ColumnEntry* column = segment_.At<ColumnEntry>(sizeof(TableHeader)) + i;
    std::memcpy(column->name, options_.columns[i].name.data(), options_.columns[i].name.size());
    column->type = static_cast<std::uint8_t>(options_.columns[i].type);
  }
  std::uint32_t index = 0;
  Lane* lane = AddLane(&index);
  if (lane == nullptr) return ENOMEM;
  lane->Release();
  file_->Publish(segment_, SegmentKind::kTable, shape_.id);
  return 0;
}

Table::~Table() {
  const bool mapped = file_->guard().SameProcess();
  for (auto& place : lanes_) {
    Lane* lane = place.load();
    if (lane == nullptr) continue;
    if (mapped) {
      lane->ring.Free(header_);
      lane->old.Free(header_);
    }
    munmap(lane, kLanePageBytes);
  }
  if (mapped) file_->Free(&segment_);
}

// Taken, or null. Several threads may add at once; each found every lane busy.
Table::Lane* Table::AddLane(std::uint32_t* index) {
  // Looked at before any system call, for when the memory is used up and every row comes here.
  const std::uint64_t bytes = LaneRing::BytesToOpen(shape_, rows_.load(std::memory_order_relaxed));
  if (lane_count_.load(std::memory_order_relaxed) == kMaxLanes ||
      file_->allocated_bytes() + bytes > file_->max_bytes()) {
    return nullptr;
  }
  void* page = mmap(nullptr, kLanePageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  Lane* lane = new (page) Lane;
  if (Renew(lane)) {
    for (std::uint32_t i = lane_count_.load(std::memory_order_acquire); i < kMaxLanes; ++i) {
      Lane* none = nullptr;
      if (!lanes_[i].compare_exchange_strong(none, lane, std::memory_order_acq_rel)) continue;
      std::uint32_t count = lane_count_.load(std::memory_order_relaxed);
      while (count <= i && !lane_count_.compare_exchange_weak(count, i + 1, std::memory_order_acq_rel)) {
      }
      *index = i;
      return lane;
    }
    FreeLane(lane);
  }
  munmap(page, kLanePageBytes);
  return nullptr;
}

bool Table::Renew(Lane* lane) {
  const std::uint64_t settings = settings_.load(std::memory_order_acquire);
  if (lane->ring.open() && lane->settings == settings) {
    // The new ring has no room left for all: what is older goes first.
    if (lane->old.open() && lane->ring.wrapped()) lane->old.Free(header_);
    return true;
  }
  LaneRing ring;
  const int error = ring.Open(file_, &shape_, next_lane_id_->fetch_add(1, std::memory_order_relaxed),
                              rows_.load(std::memory_order_relaxed));
  if (error != 0) return lane->ring.open();  // better the old size than none
  lane->old.Free(header_);
  lane->old = lane->ring.Retire();
  lane->ring = ring;
  lane->settings = settings;
  return true;
}

void Table::SetRows(std::uint64_t rows) {
  rows = std::clamp<std::uint64_t>(rows, 1, kMaxRowsLimit);
  if (!file_->guard().Armed()) return;
  rows_.store(rows, std::memory_order_relaxed);
  settings_.fetch_add(1, std::memory_order_release);
  Store(&header_->rows_limit, rows);
  const std::uint32_t count = lane_count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    Lane* lane = lanes_[i].load(std::memory_order_acquire);
    if (!lane->TryTake()) continue;  // it will see for itself at the end of its block
    Renew(lane);
    lane->Release();
  }
}

Table::Lane* Table::TakeLargest(std::uint64_t* bytes) {
  Lane* largest = nullptr;
  const std::uint32_t count = lane_count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    Lane* lane = lanes_[i].load(std::memory_order_acquire);
    if (!lane->TryTake()) continue;
    const std::uint64_t size = lane->ring.allocated_bytes() + lane->old.allocated_bytes();
    if (size <= *bytes) {
      lane->Release();
      continue;
    }
    if (largest != nullptr) largest->Release();
    largest = lane;
    *bytes = size;
  }
  return largest;
}

void Table::FreeLane(Lane* lane) {
  lane->ring.Free(header_);
  lane->old.Free(header_);
}

// Takes every lane for good. One that is busy for long belongs to a thread that died in it, and its
// memory stays until the process ends.
void Table::Close() {
  const std::uint32_t count = lane_count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    Lane* lane = lanes_[i].load(std::memory_order_acquire);
    for (int tries = 0; tries < kCloseTries; ++tries) {
      if (lane->TryTake()) {
        FreeLane(lane);
        break;
      }
      sched_yield();
    }
  }
}

}  // namespace probing::ring
