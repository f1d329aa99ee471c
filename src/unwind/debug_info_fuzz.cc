// Debug information of an ELF file: units, entries, ranges and line tables, as `backtrace --lines` reads
// them.
#include "process/byte_memory.h"
#include "unwind/debug_info.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing;
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = unwind::ElfFile::Load(std::make_shared<process::ByteMemory>(0, bytes));
  if (!file.ok()) return 0;
  const auto info = unwind::DebugInfo::Load(*file);
  if (!info.ok()) return 0;
  for (std::uint64_t address = 0; address < 0x2000; address += 0x41) (void)(*info)->Find(address);
  return 0;
}
