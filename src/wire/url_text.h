// Parts of URLs. Linked into the probe, so nothing here throws.
#pragma once

#include <string>
#include <string_view>

namespace probing::wire {

// %XX as the byte it stands for.
std::string PercentDecoded(std::string_view text);

// Takes "USER[:PASSWORD]@" off, which stands before the first slash. False: they cannot travel in a line.
bool TakeUser(std::string_view& rest, std::string& user, std::string& password);

}  // namespace probing::wire
