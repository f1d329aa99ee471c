#include "cli/highlight.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "cli/output.h"

namespace probing::cli {
namespace {

constexpr std::uint8_t kKeyword = 35, kText = 32, kNumber = 36, kComment = 90;  // as terminals number them

constexpr std::array<std::string_view, 35> kPythonKeywords{
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

constexpr std::array<std::string_view, 58> kSqlKeywords{
    "SELECT",    "FROM",   "WHERE",  "GROUP",  "ORDER",     "BY",      "LIMIT",    "OFFSET",  "HAVING",
    "JOIN",      "LEFT",   "RIGHT",  "FULL",   "INNER",     "CROSS",   "ASOF",     "ON",      "USING",
    "AS",        "AND",    "OR",     "NOT",    "IN",        "IS",      "NULL",     "LIKE",    "ILIKE",
    "BETWEEN",   "CASE",   "WHEN",   "THEN",   "ELSE",      "END",     "UNION",    "ALL",     "DISTINCT",
    "WITH",      "DESC",   "ASC",    "OVER",   "PARTITION", "QUALIFY", "INTERVAL", "EXPLAIN", "ANALYZE",
    "DESCRIBE",  "SHOW",   "TABLES", "TRUE",   "FALSE",     "CAST",    "EXISTS",   "FILTER",  "PIVOT",
    "SUMMARIZE", "VALUES", "WINDOW", "EXCLUDE"};

bool IsWordByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0 || c == '_';
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

struct Language {
  bool is_sql = false;
  bool IsKeyword(std::string_view word) const {
    if (!is_sql) return std::ranges::find(kPythonKeywords, word) != kPythonKeywords.end();
    std::string upper(word);
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
    return std::ranges::find(SqlKeywords(), upper) != SqlKeywords().end();
  }
  bool IsComment(std::string_view rest) const { return rest.starts_with(is_sql ? "--" : "#"); }
  bool IsQuote(char c) const { return c == '\'' || (c == '"' && !is_sql); }
};

// Where a quoted text ends, its last quote included.
std::size_t EndOfText(std::string_view text, std::size_t at, const Language& language) {
  const std::string_view triple = text.substr(at, 3);
  if (!language.is_sql && (triple == "'''" || triple == "\"\"\"")) {
    const std::size_t end = text.find(triple, at + 3);
    return end == std::string_view::npos ? text.size() : end + 3;
  }
  const char quote = text[at];
  for (std::size_t i = at + 1; i < text.size(); ++i) {
    if (text[i] == quote) return i + 1;
    if (!language.is_sql && text[i] == '\n') return i;
    if (!language.is_sql && text[i] == '\\') ++i;
  }
  return text.size();
}

std::vector<std::uint8_t> Highlight(std::string_view text, const Language& language) {
  std::vector<std::uint8_t> colours(text.size(), 0);
  const auto paint = [&](std::size_t from, std::size_t to, std::uint8_t colour) {
    std::fill(colours.begin() + static_cast<std::ptrdiff_t>(from),
              colours.begin() + static_cast<std::ptrdiff_t>(std::min(to, text.size())), colour);
  };
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (language.IsComment(text.substr(i))) {
      end = std::min(text.find('\n', i), text.size());
      paint(i, end, kComment);
    } else if (language.IsQuote(text[i])) {
      end = EndOfText(text, i, language);
      paint(i, end, kText);
    } else if (IsWordByte(text[i])) {
      while (end < text.size() && (IsWordByte(text[end]) || (IsDigit(text[i]) && text[end] == '.'))) ++end;
      if (IsDigit(text[i])) paint(i, end, kNumber);
      const bool is_member = i > 0 && text[i - 1] == '.';
      if (!is_member && language.IsKeyword(text.substr(i, end - i))) paint(i, end, kKeyword);
    }
    i = end;
  }
  return colours;
}

}  // namespace

std::vector<std::uint8_t> HighlightPython(std::string_view text) { return Highlight(text, {}); }
std::vector<std::uint8_t> HighlightSql(std::string_view text) { return Highlight(text, {.is_sql = true}); }

std::span<const std::string_view> SqlKeywords() { return kSqlKeywords; }

bool ShowsColours() { return !Painted("", Colour::kBold).empty(); }

}  // namespace probing::cli
