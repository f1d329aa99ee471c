#include "ring/texts.h"

#include <cstring>

namespace probing::ring {
namespace {

// More than all heaps of a lane together can hold. A lying ring could name one entry of 16 MB in
// every row.
constexpr std::uint64_t kMaxBatchText = 2 * kMaxHeapBytes;

std::optional<SegmentEntry> ReadEntry(const Source& source, std::uint32_t index) {
  const std::uint64_t at = kDirectoryOffset + index * sizeof(SegmentEntry);
  SegmentEntry entry{};
  entry.state = source.GetAcquire<std::uint32_t>(at + offsetof(SegmentEntry, state));
  if (entry.state % 2 == 0) return {};
  entry.offset = source.Get<std::uint64_t>(at + offsetof(SegmentEntry, offset));
  entry.size = source.Get<std::uint64_t>(at + offsetof(SegmentEntry, size));
  entry.kind = source.Get<std::uint32_t>(at + offsetof(SegmentEntry, kind));
  entry.table = source.Get<std::uint32_t>(at + offsetof(SegmentEntry, table));
  FenceAcquire();
  if (source.Get<std::uint32_t>(at + offsetof(SegmentEntry, state)) != entry.state) return {};
  if (entry.offset % 64 != 0 || entry.size % 64 != 0 || entry.size == 0) return {};
  return entry;
}

}  // namespace

std::optional<SegmentEntry> ReadSegmentEntry(const Source& source, std::uint32_t index) {
  std::optional<SegmentEntry> entry = ReadEntry(source, index);
  if (entry && !source.Contains(entry->offset, entry->size)) return {};
  return entry;
}

void Texts::SetDictionary(const SegmentEntry& entry) {
  if (copy_ != nullptr || entry.size > kMaxDictionaryBytes) return;
  dictionary_ = entry;
  copy_ = std::make_unique_for_overwrite<char[]>(entry.size);
  known_.assign(entry.size / 8 / 64 + 1, 0);
}

bool Texts::Interned(std::uint64_t cell, std::string_view* text) {
  if (cell < sizeof(DictionaryHeader) / 8 || cell >= dictionary_.size / 8) return false;
  const std::uint64_t at = cell * 8;
  std::uint64_t length = 0;
  const bool known = (known_[cell / 64] >> (cell % 64) & 1) != 0;
  if (known) {
    std::memcpy(&length, copy_.get() + at, 8);
  } else {
    length = source_->Get<std::uint64_t>(dictionary_.offset + at);
  }
  // Also when it is known: entries that overlap, which ours never do, overwrite each other.
  if (length > kMaxInterned || EntryBytes(length) > dictionary_.size - at) return false;
  if (!known) {
    if (!source_->Copy(dictionary_.offset + at + 8, (length + 7) / 8, copy_.get() + at + 8)) return false;
    std::memcpy(copy_.get() + at, &length, 8);
    known_[cell / 64] |= 1ULL << (cell % 64);
  }
  *text = std::string_view(copy_.get() + at + 8, length);
  return true;
}

bool Texts::CopyFromHeap(std::uint64_t cell, std::uint32_t table, std::string* to) {
  const auto index = static_cast<std::uint32_t>((cell & ~kHeapFlag) >> kHeapSegmentShift);
  if (index >= kMaxSegments) return false;
  if (index != heap_index_) {
    heap_ = ReadEntry(*source_, index);
    // It may be younger than our view of the file.
    if (heap_ && !source_->Contains(heap_->offset, heap_->size)) {
      source_->Grow();
      if (!source_->Contains(heap_->offset, heap_->size)) heap_.reset();
    }
    heap_index_ = index;
  }
  const std::uint64_t position = cell & kHeapOffsetMask;
  if (!heap_ || heap_->kind != static_cast<std::uint32_t>(SegmentKind::kHeap) || heap_->table != table ||
      position % 8 != 0 || position >= heap_->size) {
    return false;
  }
  const auto length = source_->Get<std::uint64_t>(heap_->offset + position);
  if (length > kMaxValueBytes || EntryBytes(length) > heap_->size - position) return false;
  if (to->size() + EntryBytes(length) > kMaxBatchText) return false;
  const std::size_t before = to->size();
  to->resize(before + EntryBytes(length) - 8);
  source_->Copy(heap_->offset + position + 8, (length + 7) / 8, to->data() + before);
  to->resize(before + length);
  return true;
}

}  // namespace probing::ring
