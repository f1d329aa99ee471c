#include "cli/sql_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "cli/highlight.h"
#include "cli/query_client.h"

namespace probing::cli {
namespace {

constexpr std::array<std::string_view, 10> kDotCommands{".help",   ".tables", ".schema", ".watch", ".mode",
                                                        ".output", ".timer",  ".read",   ".quit",  ".exit"};

bool IsNameByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0 || c == '_' || c == '.';
}

std::string Upper(std::string_view text) {
  std::string upper(text);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
  return upper;
}

bool StartsWithIgnoringCase(std::string_view text, std::string_view prefix) {
  return Upper(text.substr(0, prefix.size())) == Upper(prefix);
}

// Calls back with each character that is code, and where it is; texts in quotes and comments are left out.
void ForCode(std::string_view text, const auto& visit) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("--")) {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i).starts_with("/*")) {
      i = std::min(text.find("*/", i + 2), text.size() - 1) + 1;
    } else if (text[i] == '\'' || text[i] == '"') {
      visit(i, text[i]);
      i = std::min(text.find(text[i], i + 1), text.size());
    } else {
      visit(i, text[i]);
    }
  }
}

// The names and keywords of a text, in order.
std::vector<std::string> Words(std::string_view text) {
  std::vector<std::string> words;
  std::size_t end = std::string_view::npos;  // of the word that is being read
  ForCode(text, [&](std::size_t at, char c) {
    if (!IsNameByte(c)) return;
    if (end == at && !words.empty()) {
      words.back() += c;
    } else {
      words.emplace_back(1, c);
    }
    end = at + 1;
  });
  return words;
}

}  // namespace

bool IsWholeStatement(std::string_view text) {
  char last = 0;
  ForCode(text, [&last](std::size_t, char c) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) last = c;
  });
  return last == ';';
}

std::string WithoutSemicolon(std::string_view text) {
  std::size_t begin = std::string_view::npos, end = 0;
  ForCode(text, [&](std::size_t at, char c) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0 || c == ';') return;
    begin = std::min(begin, at);
    end = at + 1;
    if (c == '\'' || c == '"') end = std::min(text.find(c, at + 1), text.size() - 1) + 1;
  });
  return begin == std::string_view::npos ? "" : std::string(text.substr(begin, end - begin));
}

SqlCompletion CompleteSql(std::string_view before, const SqlNames& names) {
  std::size_t start = before.size();
  while (start > 0 && IsNameByte(before[start - 1])) --start;
  const std::string_view word = before.substr(start);
  const std::string_view front = before.substr(0, start);
  std::set<std::string> found;
  const auto offer = [&](std::string_view candidate) {
    if (StartsWithIgnoringCase(candidate, word)) found.insert(std::string(candidate));
  };
  const std::vector<std::string> words = Words(before);
  if (before.starts_with('.')) {
    if (front.empty()) {
      for (const std::string_view command : kDotCommands) offer(command);
    } else if (front.starts_with(".schema") || front.starts_with(".tables")) {
      for (const std::string& table : names.tables) offer(table);
    } else if (front.starts_with(".mode")) {
      std::string_view formats = kQueryFormats;
      while (!formats.empty()) {
        const std::size_t bar = std::min(formats.find('|'), formats.size());
        offer(formats.substr(0, bar));
        formats.remove_prefix(std::min(bar + 1, formats.size()));
      }
    } else if (front.starts_with(".timer")) {
      offer("on");
      offer("off");
    }
    return {word.size(), {found.begin(), found.end()}};
  }
  const std::size_t before_word = words.size() - (word.empty() || words.empty() ? 0 : 1);
  const std::string previous = before_word > 0 ? Upper(words[before_word - 1]) : "";
  const bool wants_table =
      previous == "FROM" || previous == "JOIN" || previous == "DESCRIBE" || previous == "SUMMARIZE";
  // t.col: what is before the last dot may be a table or an alias of one.
  const std::size_t dot = word.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? word : word.substr(dot + 1);
  for (const std::string& table : names.tables) offer(table);
  if (!wants_table) {
    std::set<std::string> named;
    for (const std::string& one : words) named.insert(one);
    for (const auto& [table, column] : names.columns) {
      const bool is_meant = named.contains(table) || named.contains("global." + table);
      if (is_meant && StartsWithIgnoringCase(column, last))
        found.insert(std::string(word.substr(0, word.size() - last.size())) + column);
    }
    if (!word.empty() && dot == std::string_view::npos) {
      const bool is_lower = std::islower(static_cast<unsigned char>(word[0])) != 0;
      for (const std::string_view keyword : SqlKeywords()) {
        if (!StartsWithIgnoringCase(keyword, word)) continue;
        std::string shown(keyword);
        if (is_lower)
          std::ranges::transform(shown, shown.begin(), [](unsigned char c) { return std::tolower(c); });
        found.insert(shown);
      }
    }
  }
  return {word.size(), {found.begin(), found.end()}};
}

}  // namespace probing::cli
