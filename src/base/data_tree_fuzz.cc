// Pickles and JSON that somebody sent us: no code is run, nothing is read beyond the bytes.
#include "base/data_tree.h"

namespace {

// To a fixed depth: a list may contain itself.
std::size_t Walk(probing::DataTree::Value value, int depth) {
  std::size_t sum = value.Text().size() + static_cast<std::size_t>(value.Int().value_or(0) & 1);
  if (depth == 0) return sum;
  for (std::size_t i = 0; i < value.size() && i < 8; ++i) sum += Walk(value.at(i), depth - 1);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const auto& tree : {probing::ReadPickle(bytes, 10'000), probing::ReadJson(bytes, 10'000)}) {
    if (tree.ok()) (void)Walk(tree->root(), 4);
  }
  return 0;
}
