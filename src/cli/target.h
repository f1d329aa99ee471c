// What a user writes to name a target.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::cli {

// Whether a word has the form of a target: a number, host:port, [v6]:port, unix:PATH, rank:N,
// scheme://… or the path of a directory. So `probing 1234 inject` needs no -t. A word with a space or
// '=' never has.
bool LooksLikeTarget(std::string_view word);

// Whether a word is the path of a directory: it begins with /, ./ or ../, or is . or ..
bool LooksLikeDirectory(std::string_view word);

// The absolute path of a directory that exists.
Result<std::string> ParseDirectory(std::string_view word);

// The pid of a process that exists. kUsage for words that are no target and for kinds of
// targets this version does not serve, kNotFound for a pid nobody has.
Result<pid_t> ParseTarget(std::string_view word);

}  // namespace probing::cli
