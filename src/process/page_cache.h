// PageCache: another Memory, read page by page and each page once.
//
// For structures whose pieces lie close together and are read again and again, such as the Thread objects of
// two hundred threads: a system call per page instead of thirty per object. What it shows is as old as the
// first look at the page, so it is for a moment, and for what can be checked afterwards.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_map>

#include "process/memory.h"

namespace probing::process {

// Not thread-safe. Lifetime: `memory` must outlive it.
class PageCache final : public Memory {
 public:
  explicit PageCache(const Memory& memory) : memory_(&memory) {}

  Result<void> Read(RemoteAddress from, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const std::uint64_t offset = from.address % kPageBytes;
      const std::size_t size = std::min<std::size_t>(out.size(), kPageBytes - offset);
      const Page* page = Find(from.address - offset);
      if (page == nullptr) return memory_->Read(from, out);
      std::memcpy(out.data(), page->data() + offset, size);
      out = out.subspan(size);
      from = from + size;
    }
    return {};
  }

  // Many pieces are likely to be everywhere; then one system call for all is the cheaper way.
  Result<void> ReadPieces(std::span<const Piece> pieces) const override {
    return pieces.size() > kFewPieces ? memory_->ReadPieces(pieces) : Memory::ReadPieces(pieces);
  }

 private:
  static constexpr std::uint64_t kPageBytes = 4096;
  static constexpr std::size_t kMaxPages = 1024;
  static constexpr std::size_t kFewPieces = 64;
  using Page = std::array<std::byte, kPageBytes>;

  // Null: it cannot be read as a whole, or there are too many already.
  const Page* Find(std::uint64_t start) const {
    if (const auto found = pages_.find(start); found != pages_.end()) return &found->second;
    if (pages_.size() >= kMaxPages) return nullptr;
    Page page;
    if (!memory_->Read(RemoteAddress{start}, page).ok()) return nullptr;
    return &pages_.emplace(start, page).first->second;
  }

  const Memory* memory_;
  mutable std::unordered_map<std::uint64_t, Page> pages_;
};

}  // namespace probing::process
