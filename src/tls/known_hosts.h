// Which certificate was seen where: a file of lines "host:port sha256:…", which its user may edit.
//
// The first one seen at an address is believed and written down; from then on another one is refused.
#pragma once

#include <string>

#include "base/result.h"

namespace probing::tls {

enum class Seen : std::uint8_t { kFirst, kSame };

// kPermission when another one was seen there before. kFirst: it has been written down just now.
Result<Seen> CheckKnownHost(const std::string& path, const std::string& address,
                            const std::string& fingerprint);

}  // namespace probing::tls
