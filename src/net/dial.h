// A TCP connection to another machine, within a time.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "wire/address.h"

namespace probing::net {

// Tries every address a name has. The socket is blocking.
Result<ScopedFd> DialTcp(const wire::Address& address, std::int64_t timeout_ms);

}  // namespace probing::net
