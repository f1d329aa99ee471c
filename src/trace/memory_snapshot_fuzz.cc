// Snapshots of a GPU's memory that somebody sent us: any pickle of data.
#include <cstdint>
#include <cstdlib>

#include "base/data_tree.h"
#include "trace/memory_snapshot.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const probing::Result<probing::DataTree> tree = probing::ReadPickle(bytes, 10'000);
  if (!tree.ok()) return 0;
  const probing::Result<probing::trace::MemorySnapshot> snapshot =
      probing::trace::ReadMemorySnapshot(*tree, 100);
  if (!snapshot.ok()) return 0;
  if (snapshot->blocks.size() > 100) std::abort();
  for (const probing::trace::MemoryBlock& block : snapshot->blocks) {
    if (block.bytes < 0 || snapshot->texts.At(block.stack).size() > (1 << 20)) std::abort();
  }
  return 0;
}
