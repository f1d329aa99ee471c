// A loaded object whose every byte belongs to the target.
#include "process/byte_memory.h"
#include "process/elf_image.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::process;
  constexpr std::uint64_t kBase = 0x10000;
  const ByteMemory memory(kBase, std::as_bytes(std::span(data, size)));
  const auto image = ElfImage::Load(memory, {kBase});
  if (!image.ok()) return 0;
  for (const char* name : {"", "f", "_PyRuntime", "a_name_that_is_longer_than_the_string_table"})
    (void)image->FindSymbol(name);
  return 0;
}
