// Rows on their way between hosts, made smaller by LZ4: 9.5 MB of collectives become 3.6 MB, and packing them
// takes less time than a network of 1 Gbit/s needs for what is saved. (zlib would take longer than it saves.)
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::cluster {

// What one says that takes packed bodies, as Accept-Encoding.
inline constexpr std::string_view kPackedEncoding = "probing-lz4";

// Nothing when it is not worth it: when it is small, or does not become smaller.
std::string Pack(std::string_view body);

// Untrusted: an error unless it is exactly the packed form of at most max_bytes. No more than these are ever
// written, whatever it says of itself.
Result<std::string> Unpack(std::string_view packed, std::size_t max_bytes);

}  // namespace probing::cluster
