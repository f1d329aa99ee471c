// Whole small files, as /proc serves them: no size known beforehand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace probing {

Result<std::string> ReadFile(const std::string& path);
Result<std::string> ReadLink(const std::string& path);

// Names in a directory, without "." and "..", in no particular order.
Result<std::vector<std::string>> ListDirectory(const std::string& path);

// Writes all of `data`, restarting after signals and short writes.
Result<void> WriteAll(int fd, std::string_view data);

}  // namespace probing
