// Text as other languages read it back.
#pragma once

#include <string>
#include <string_view>

namespace probing {

// SQL: 'text', or a "name". The quote itself is doubled.
inline std::string QuoteForSql(std::string_view text, char quote = '\'') {
  std::string quoted(1, quote);
  for (const char c : text) quoted += c == quote ? std::string(2, quote) : std::string(1, c);
  return quoted + quote;
}

// One word of any shell.
inline std::string QuoteForShell(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace probing
