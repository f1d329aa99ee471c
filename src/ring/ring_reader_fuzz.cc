// libFuzzer: a good ring with bytes changed by the input, read whole. The input is a list of
// patches (where: 4 bytes, how many: 1, then these), because almost any file that begins with random
// bytes is refused at once.
#include <cstdint>
#include <cstring>
#include <string>

#include "ring/exercise.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using probing::ring::Reader;
  static const std::string good = probing::ring::SampleRing();
  std::string image = good;
  while (size > 5 && !image.empty()) {
    std::uint32_t where = 0;
    std::memcpy(&where, data, 4);
    const std::size_t count = std::min<std::size_t>(data[4] % 16, size - 5);
    const std::size_t at = where % image.size();
    std::memcpy(image.data() + at, data + 5, std::min(count, image.size() - at));
    if (data[4] == 0xff) image.resize(at);  // cut short
    data += 5 + count;
    size -= 5 + count;
  }
  probing::Result<Reader> reader = Reader::FromBytes(image.data(), image.size());
  if (!reader.ok()) return 0;
  [[maybe_unused]] static volatile std::uint64_t result;  // so that nothing is left out
  std::uint64_t sum = 0;
  probing::ring::ReadEverything(&*reader, &sum);
  result = sum;
  return 0;
}
