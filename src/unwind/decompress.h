// Compressed debug information: zlib and zstd in sections, xz in .gnu_debugdata.
//
// The libraries are those of this machine, loaded when something compressed is read for the first time: most
// machines have them and few users need them. What is decompressed is untrusted and bounded. Thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"

namespace probing::unwind {

inline constexpr std::size_t kMaxDecompressedBytes = 256 << 20;

// Exactly `size_bytes` come out, or it is an error. kNotFound: the library is not there.
Result<std::vector<std::byte>> Inflate(std::span<const std::byte> compressed, std::size_t size_bytes);
Result<std::vector<std::byte>> Unzstd(std::span<const std::byte> compressed, std::size_t size_bytes);
// At most `max_bytes` come out.
Result<std::vector<std::byte>> Unxz(std::span<const std::byte> compressed, std::size_t max_bytes);

}  // namespace probing::unwind
