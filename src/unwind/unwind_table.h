// The unwind table of one loaded object: .eh_frame_hdr, an index sorted by address, and .eh_frame.
//
// Both are part of the loaded image and are read from the target's memory: the index once, as a
// whole (2.7 MB for the largest library of PyTorch), of .eh_frame only the few entries that are
// needed. Not thread-safe.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "process/elf_image.h"
#include "process/memory.h"
#include "unwind/cfi.h"

namespace probing::unwind {

class UnwindTable {
 public:
  // kNotFound: the object has none. Lifetime: `memory` must outlive it.
  static Result<UnwindTable> Load(const process::Memory& memory, const process::ElfImage& image);

  // The rules at `pc`, an address in the target. kNotFound: no function is there.
  Result<Row> Find(std::uint64_t pc);

 private:
  // Both relative to the start of .eh_frame_hdr, as the linker wrote them.
  struct Entry {
    std::int32_t function;
    std::int32_t description;
  };
  static_assert(sizeof(Entry) == 8);

  UnwindTable(const process::Memory& memory, std::uint64_t start) : memory_(&memory), start_(start) {}

  Result<std::vector<std::byte>> ReadEntry(std::uint64_t address) const;
  Result<const Cie*> FindCie(std::uint64_t address);

  const process::Memory* memory_;
  std::uint64_t start_;  // of .eh_frame_hdr in the target
  std::vector<Entry> index_;
  std::unordered_map<std::uint64_t, Cie> cies_;  // by address; an object has a handful
};

}  // namespace probing::unwind
