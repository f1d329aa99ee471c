// What another host sends as a packed body: whatever it is, unpacking ends with at most as many bytes as are
// allowed, and what was packed here comes back as it was.
#include <cstdint>
#include <cstdlib>

#include "cluster/packing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::cluster;
  constexpr std::size_t kMost = 1 << 20;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const probing::Result<std::string> unpacked = Unpack(bytes, kMost);
  if (unpacked.ok() && unpacked->size() > kMost) std::abort();
  std::string body;
  while (size > 0 && body.size() < (16U << 10U)) body += bytes;
  const std::string packed = Pack(body);
  if (packed.empty()) return 0;  // not worth it
  const probing::Result<std::string> back = Unpack(packed, kMost);
  if (!back.ok() || *back != body) std::abort();
  return 0;
}
