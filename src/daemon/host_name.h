// What this machine calls itself; "" when it cannot say.
#pragma once

#include <unistd.h>

#include <array>
#include <string>

namespace probing::daemon {

inline std::string HostName() {
  std::array<char, 256> name{};  // one more than gethostname may fill: so it ends
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace probing::daemon
