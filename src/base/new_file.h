// A file that is there whole or not at all.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace probing {

// All of `data` under a new name, or nothing: it gets the name when it is whole and on disk. Readable by its
// owner only. kUsage when there is something of that name.
Result<void> WriteNewFile(const std::string& path, std::string_view data);

}  // namespace probing
