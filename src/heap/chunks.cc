#include "heap/chunks.h"

#include <algorithm>
#include <cstring>

namespace probing::heap {

using process::RemoteAddress;

Chunks::Chunks(const process::Memory& memory, const process::Maps& maps) : memory_(&memory) {
  for (const process::Mapping& mapping : maps.all()) {
    if (!mapping.readable || mapping.start >= mapping.end || mapping.path == "[vsyscall]") continue;
    if (!ranges_.empty() && ranges_.back().end == mapping.start) {
      ranges_.back().end = mapping.end;
    } else {
      ranges_.push_back({mapping.start, mapping.end});
    }
  }
}

const Chunks::Range* Chunks::FindRange(std::uint64_t address) const {
  if (last_range_ != nullptr && address >= last_range_->start && address < last_range_->end)
    return last_range_;
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                      [](std::uint64_t a, const Range& range) { return a < range.start; });
  if (after == ranges_.begin() || address >= std::prev(after)->end) return nullptr;
  last_range_ = &*std::prev(after);
  return last_range_;
}

bool Chunks::IsMapped(std::uint64_t address, std::uint64_t size_bytes) const {
  const Range* range = FindRange(address);
  return range != nullptr && size_bytes <= range->end - address;
}

std::uint64_t Chunks::MappedAfter(std::uint64_t address) const {
  const Range* range = FindRange(address);
  return range == nullptr ? 0 : range->end - address;
}

void Chunks::Fill(std::uint64_t start, Chunk& chunk) const {
  if (memory_->Read({start}, chunk.bytes).ok()) {
    chunk.readable_pages = UINT16_MAX;
    return;
  }
  chunk.readable_pages = 0;
  for (std::uint64_t page = 0; page < kChunkBytes / kPageBytes; ++page) {
    if (!IsMapped(start + page * kPageBytes, kPageBytes)) continue;
    const auto out = std::span(chunk.bytes).subspan(page * kPageBytes, kPageBytes);
    if (memory_->Read({start + page * kPageBytes}, out).ok())
      chunk.readable_pages = static_cast<std::uint16_t>(chunk.readable_pages | 1U << page);
  }
}

const Chunks::Chunk& Chunks::Find(std::uint64_t number) const {
  Recent& recent = recent_[number % kRecent];
  if (recent.number == number) return *recent.chunk;
  auto found = chunks_.find(number);
  if (found == chunks_.end()) {
    std::unique_ptr<Chunk> chunk;
    if (chunks_.size() >= kMaxChunks) {  // the oldest one makes room
      std::uint64_t& replaced = numbers_[oldest_];
      oldest_ = (oldest_ + 1) % kMaxChunks;
      Recent& was_recent = recent_[replaced % kRecent];
      if (was_recent.number == replaced) was_recent = {};
      const auto old = chunks_.find(replaced);
      chunk = std::move(old->second);
      chunks_.erase(old);
      replaced = number;
    } else {
      chunk = std::make_unique_for_overwrite<Chunk>();
      numbers_.push_back(number);
    }
    Fill(number * kChunkBytes, *chunk);
    found = chunks_.emplace(number, std::move(chunk)).first;
  }
  recent = {number, found->second.get()};
  return *found->second;
}

bool Chunks::TryRead(std::uint64_t from, std::span<std::byte> out) const {
  if (!IsMapped(from, out.size())) return false;
  while (!out.empty()) {
    const std::uint64_t offset = from % kChunkBytes;
    const std::size_t size = std::min<std::size_t>(out.size(), kChunkBytes - offset);
    const Chunk& chunk = Find(from / kChunkBytes);
    for (std::uint64_t page = offset / kPageBytes; page <= (offset + size - 1) / kPageBytes; ++page) {
      if ((chunk.readable_pages >> page & 1U) == 0) return false;
    }
    std::memcpy(out.data(), chunk.bytes.data() + offset, size);
    out = out.subspan(size);
    from += size;
  }
  return true;
}

Result<void> Chunks::Read(RemoteAddress from, std::span<std::byte> out) const {
  if (TryRead(from.address, out)) return {};
  return Error{Code::kFailed, "this memory of the target cannot be read", ""};
}

}  // namespace probing::heap
