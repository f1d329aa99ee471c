#include "cluster/packing.h"

#include <lz4.h>

#include <cstdint>
#include <cstring>

namespace probing::cluster {
namespace {

constexpr std::size_t kWorthIt = 16 << 10;
constexpr std::size_t kHeadBytes = sizeof(std::uint64_t);  // how long it was, before the block

}  // namespace

std::string Pack(std::string_view body) {
  if (body.size() < kWorthIt || body.size() > LZ4_MAX_INPUT_SIZE) return "";
  const auto size = static_cast<int>(body.size());
  const std::uint64_t length = body.size();
  std::string packed(kHeadBytes + static_cast<std::size_t>(LZ4_compressBound(size)), '\0');
  std::memcpy(packed.data(), &length, kHeadBytes);
  const int got = LZ4_compress_default(body.data(), packed.data() + kHeadBytes, size,
                                       static_cast<int>(packed.size() - kHeadBytes));
  if (got <= 0 || kHeadBytes + static_cast<std::size_t>(got) >= body.size()) return "";
  packed.resize(kHeadBytes + static_cast<std::size_t>(got));
  return packed;
}

Result<std::string> Unpack(std::string_view packed, std::size_t max_bytes) {
  std::uint64_t length = 0;
  if (packed.size() >= kHeadBytes) std::memcpy(&length, packed.data(), kHeadBytes);
  if (length == 0 || length > LZ4_MAX_INPUT_SIZE || packed.size() > LZ4_MAX_INPUT_SIZE)
    return Error{Code::kFailed, "it sent packed rows that are damaged", ""};
  if (length > max_bytes) {
    return Error{Code::kFailed,
                 "its rows are " + std::to_string(length) + " bytes when unpacked, and at most " +
                     std::to_string(max_bytes) + " are taken",
                 ""};
  }
  packed.remove_prefix(kHeadBytes);
  std::string body(length, '\0');
  const int got = LZ4_decompress_safe(packed.data(), body.data(), static_cast<int>(packed.size()),
                                      static_cast<int>(body.size()));
  if (got < 0 || static_cast<std::uint64_t>(got) != length)
    return Error{Code::kFailed, "it sent packed rows that are damaged", ""};
  return body;
}

}  // namespace probing::cluster
