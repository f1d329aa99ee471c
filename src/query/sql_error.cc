#include "query/sql_error.h"

#include <algorithm>
#include <charconv>

namespace probing::query {
namespace {

// The n-th line (1 is the first), without its end.
std::string_view LineOf(std::string_view sql, int line) {
  for (; line > 1; --line) {
    const auto end = sql.find('\n');
    if (end == std::string_view::npos) return {};
    sql.remove_prefix(end + 1);
  }
  return sql.substr(0, sql.find('\n'));
}

std::size_t CountCharacters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// First `count` characters.
std::string_view TakeCharacters(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  while (end < text.size() && (count > 0 || (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) != 0x80) --count;
    ++end;
  }
  return text.substr(0, end);
}

// DuckDB shows a part of a long line between dots; the part is looked for in the line itself.
int ColumnIn(std::string_view line, std::string_view excerpt, std::size_t caret) {
  constexpr std::string_view kDots = "...";
  std::size_t skipped = 0;
  if (excerpt.starts_with(kDots)) {
    excerpt.remove_prefix(kDots.size());
    caret = caret > kDots.size() ? caret - kDots.size() : 0;
    if (excerpt.ends_with(kDots)) excerpt.remove_suffix(kDots.size());
    const auto found = line.find(excerpt);
    if (found == std::string_view::npos) return 0;
    skipped = CountCharacters(line.substr(0, found));
  }
  return static_cast<int>(skipped + caret + 1);
}

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

// A bug of DuckDB's, or one that it has met before: it answers nothing any more then.
bool IsEngineFault(std::string_view message) {
  return message.starts_with("INTERNAL Error") || message.starts_with("FATAL Error") ||
         message.find("database has been invalidated") != std::string_view::npos;
}

// What DuckDB calls the kinds of mistakes that it finds before it runs anything.
bool IsOfTheText(std::string_view message) {
  for (const std::string_view kind : {"Parser Error: ", "Binder Error: ", "Catalog Error: "}) {
    if (message.starts_with(kind)) return true;
  }
  return false;
}

}  // namespace

SqlError ParseEngineError(std::string_view engine_message, std::string_view sql) {
  SqlError error;
  error.is_engine_fault = IsEngineFault(engine_message);
  error.code = error.is_engine_fault         ? Code::kFailed
               : IsOfTheText(engine_message) ? Code::kUsage
                                             : Code::kMistake;
  constexpr std::string_view kLine = "\nLINE ";
  const auto at = engine_message.find(kLine);
  if (at == std::string_view::npos) {
    error.message = Trim(engine_message);
    return error;
  }
  error.message = Trim(engine_message.substr(0, at));
  std::string_view rest = engine_message.substr(at + kLine.size());
  const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), error.line);
  const auto colon = rest.find(": ");
  const auto newline = rest.find('\n');
  if (status != std::errc() || colon == std::string_view::npos || newline == std::string_view::npos ||
      colon > newline)
    return error;
  const std::string_view excerpt = rest.substr(colon + 2, newline - colon - 2);
  const std::string_view below = rest.substr(newline + 1);
  const std::size_t prefix = kLine.size() - 1 + colon + 2;  // "LINE 1: "
  const auto caret = below.find('^');
  if (caret == std::string_view::npos || caret < prefix) return error;
  error.column = ColumnIn(LineOf(sql, error.line), excerpt, caret - prefix);
  return error;
}

std::string SqlError::Text(std::string_view sql) const {
  constexpr std::size_t kBefore = 60;
  constexpr std::size_t kWidth = 100;
  std::string text = message;
  const std::string_view whole = LineOf(sql, line);
  if (line > 0 && column > 0 && !whole.empty()) {
    const auto place = static_cast<std::size_t>(column - 1);
    const std::size_t skip = place > kBefore ? place - kBefore : 0;
    std::string_view shown = whole.substr(TakeCharacters(whole, skip).size());
    const bool cut = CountCharacters(shown) > kWidth;
    shown = TakeCharacters(shown, kWidth);
    std::string excerpt = (skip > 0 ? "…" : "") + std::string(shown) + (cut ? "…" : "");
    std::ranges::replace(excerpt, '\t', ' ');
    text += "\n  " + excerpt + "\n  " + std::string(place - skip + (skip > 0 ? 1 : 0), ' ') + "^";
  }
  if (!hint.empty()) text += "\n" + hint;
  return text;
}

}  // namespace probing::query
