#include "store/names.h"

#include <algorithm>

#include "base/text.h"
#include "store/schema.h"

namespace probing::store {
namespace {

constexpr std::string_view kGlobal = "global.";

bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsNamePart(char c) { return IsNameStart(c) || (c >= '0' && c <= '9') || c == '.'; }

// The length of the text, quoted name or comment that `sql` begins with; 0 for none.
std::size_t LengthOfQuoted(std::string_view sql) {
  const auto until = [&](std::string_view end) {
    const std::size_t at = sql.find(end, end.size());
    return at == std::string_view::npos ? sql.size() : at + end.size();
  };
  if (sql.starts_with("--")) return until("\n");
  if (sql.starts_with("/*")) return until("*/");
  const char quote = sql.front();
  if (quote != '\'' && quote != '"' && quote != '`') return 0;
  for (std::size_t i = 1; i < sql.size(); ++i) {
    if (sql[i] == '\\')
      ++i;
    else if (sql[i] == quote)
      return i + 1;  // a doubled quote begins another one, which is as good
  }
  return sql.size();
}

// "python.gc" of "global.python.gc.duration_ms", and what follows it.
std::string Replaced(std::string_view word, const std::set<std::string, std::less<>>& tables,
                     std::string_view database) {
  const std::string lower = LowerCase(word);
  const std::size_t begin = lower.starts_with(kGlobal) ? kGlobal.size() : 0;
  const std::size_t dot = lower.find('.', begin);
  if (dot == std::string::npos) return std::string(word);
  const std::size_t end = std::min(lower.find('.', dot + 1), lower.size());
  const std::string name = lower.substr(begin, end - begin);
  if (!tables.contains(name)) return std::string(word);
  return Quoted(database) + "." + Quoted(StoredName(name)) + std::string(word.substr(end));
}

}  // namespace

std::string WithStoredNames(std::string_view sql, const std::set<std::string, std::less<>>& tables,
                            std::string_view database) {
  std::string result;
  while (!sql.empty()) {
    std::size_t length = LengthOfQuoted(sql);
    if (length == 0 && IsNamePart(sql.front())) {
      while (length < sql.size() && IsNamePart(sql[length])) ++length;
      const std::string_view word = sql.substr(0, length);
      result += IsNameStart(word.front()) ? Replaced(word, tables, database) : std::string(word);
    } else {
      length = std::max<std::size_t>(length, 1);
      result += sql.substr(0, length);
    }
    sql.remove_prefix(length);
  }
  return result;
}

}  // namespace probing::store
