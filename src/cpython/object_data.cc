#include "cpython/object_data.h"

namespace probing::cpython {
namespace {

constexpr std::size_t kMaxDataBytes = 32 << 20;  // libpython has 0.5 MB; a program that embeds it more

}  // namespace

std::vector<DataRange> ReadObjectData(const process::Memory& memory, const process::Maps& maps,
                                      const process::Maps::Object& object) {
  std::vector<DataRange> ranges;
  const auto add = [&](const process::Mapping& mapping) {
    const std::uint64_t size = mapping.end - mapping.start;
    if (size > kMaxDataBytes) return;
    DataRange range{{mapping.start}, std::vector<std::uint64_t>(size / sizeof(std::uint64_t))};
    if (!memory.Read(range.start, std::as_writable_bytes(std::span(range.words))).ok()) return;
    ranges.push_back(std::move(range));
  };
  for (const process::Mapping& part : object.parts) {
    if (!part.writable) continue;
    add(part);
    const process::Mapping* behind = maps.Find(part.end);
    if (behind != nullptr && behind->path.empty() && behind->writable) add(*behind);
  }
  return ranges;
}

}  // namespace probing::cpython
