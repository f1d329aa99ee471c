// The half of LaneRing that keeps long strings.
#include <algorithm>
#include <bit>

#include "ring/lane_ring.h"
#include "ring/words.h"

namespace probing::ring {

// Room for `bytes` in one piece: in the heap as it is, in a larger one, or where the oldest rows
// were. All strings of a row are placed together, so that none of them can push out another.
bool LaneRing::MakeHeapRoom(std::uint64_t bytes) {
  if (heap_ != nullptr && HeapFits(bytes)) return true;
  if (GrowHeap(bytes)) return true;
  if (heap_ == nullptr || bytes > heap_->capacity) return false;
  while (first_ < last_) {
    EvictFirst();
    if (HeapFits(bytes)) return true;
  }
  // Only the block being filled is left, and its strings are in the way too.
  EvictFirst();
  NextBlock();
  heap_->head = heap_->tail = AlignUp(heap_->head, heap_->capacity);
  Store(&block_header_->heap_start, heap_->head);
  return HeapFits(bytes);
}

// Moves the head to the front when the piece would reach over the end.
bool LaneRing::HeapFits(std::uint64_t bytes) {
  Heap& heap = *heap_;
  for (;;) {
    if (bytes > heap.capacity) return false;
    const std::uint64_t position = heap.head % heap.capacity;
    const std::uint64_t start =
        position + bytes > heap.capacity ? heap.head + heap.capacity - position : heap.head;
    if (start + bytes - heap.tail > heap.capacity) return false;
    if (file_->Allocate(&heap.segment, start % heap.capacity + bytes) == 0) {
      heap.head = start;
      return true;
    }
    // Without more memory the ring of bytes closes here; only in its first round, since positions
    // of later ones depend on the capacity.
    if (heap.head >= heap.capacity || heap.segment.allocated == heap.capacity) return false;
    heap.capacity = heap.segment.allocated;
  }
}

bool LaneRing::GrowHeap(std::uint64_t bytes) {
  std::uint64_t size = heap_ == nullptr ? kFirstHeapBytes : heap_->segment.size * kHeapGrowth;
  while (size < 2 * bytes && size < kMaxHeapBytes) size *= kHeapGrowth;
  if (size > kMaxHeapBytes || bytes > size) return false;
  if (file_->allocated_bytes() + bytes > file_->max_bytes()) return false;
  const auto place = std::find_if(heaps_.begin(), heaps_.end(),
                                  [](const Heap& heap) { return heap.segment.base == nullptr; });
  if (place == heaps_.end()) return false;
  Heap heap;
  if (file_->New(size, &heap.segment) != 0) return false;
  if (file_->Allocate(&heap.segment, bytes) != 0) {
    file_->Free(&heap.segment);
    return false;
  }
  heap.capacity = heap.segment.size;
  heap.first_block = last_;
  file_->Publish(heap.segment, SegmentKind::kHeap, shape_->id);
  if (heap_ != nullptr) heap_->last_block = last_;
  *place = heap;
  heap_ = &*place;
  return true;
}

// REQUIRES: MakeHeapRoom(row->heap_bytes).
void LaneRing::PlaceTexts(PreparedRow* row) {
  std::uint64_t position = heap_->head % heap_->capacity;
  heap_->head += row->heap_bytes;
  const std::uint64_t heap_cell = kHeapFlag | static_cast<std::uint64_t>(heap_->segment.index)
                                                  << kHeapSegmentShift;
  for (std::uint64_t left = row->heap; left != 0; left &= left - 1) {
    const int column = std::countr_zero(left);
    const std::string_view text = row->cells[column].text();
    WriteEntry(heap_->segment.At<std::uint64_t>(position), text.data(), text.size());
    row->bits[column] = heap_cell | position;
    position += EntryBytes(text.size());
  }
}

}  // namespace probing::ring
