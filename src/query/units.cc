#include "query/units.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "table/registry.h"

namespace probing::query {
namespace {

constexpr std::array<std::string_view, 14> kKeepUnit{
    "min",   "max",  "avg",       "mean",          "sum",           "median", "mode",
    "first", "last", "any_value", "quantile_cont", "quantile_disc", "stddev", "quantile"};
constexpr double kLongestSeconds = 10 * 365.0 * 86400;  // longer: a point in time, no duration

bool IsNameByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || std::isalnum(byte) != 0 || c == '_';
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Names and signs in lower case, without comments; a text in quotes is the token "'".
std::vector<std::string> Tokens(std::string_view sql) {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < sql.size();) {
    std::size_t end = i + 1;
    if (sql.substr(i).starts_with("--")) {
      i = std::min(sql.find('\n', i), sql.size());
      continue;
    }
    if (sql[i] == '\'' || sql[i] == '"') {
      end = std::min(sql.find(sql[i], i + 1), sql.size() - 1) + 1;
      tokens.push_back(sql[i] == '\'' ? "'" : Lower(sql.substr(i + 1, end - i - 2)));
    } else if (IsNameByte(sql[i])) {
      while (end < sql.size() && IsNameByte(sql[end])) ++end;
      tokens.push_back(Lower(sql.substr(i, end - i)));
    } else if (std::isspace(static_cast<unsigned char>(sql[i])) == 0) {
      tokens.emplace_back(1, sql[i]);
    }
    i = end;
  }
  return tokens;
}

bool IsName(const std::string& token) { return IsNameByte(token[0]); }

// What an item of a SELECT's list, the tokens from `begin` to `end`, is: a column or an aggregate of one.
// "" when it is something else.
std::string_view UnitOfItem(const std::vector<std::string>& tokens, std::size_t begin, std::size_t end,
                            const auto& unit_of) {
  // t.rss: what stands before the dot says only where it is from.
  const auto column = [&](std::size_t from, std::size_t to) -> std::string_view {
    if (to <= from || !IsName(tokens[to - 1])) return {};
    for (std::size_t i = from; i < to; ++i) {
      if (((to - 1 - i) % 2 == 0) != IsName(tokens[i]) || (!IsName(tokens[i]) && tokens[i] != ".")) return {};
    }
    return unit_of(tokens[to - 1]);
  };
  if (end - begin < 4 || tokens[end - 1] != ")" || tokens[begin + 1] != "(") return column(begin, end);
  if (std::ranges::find(kKeepUnit, tokens[begin]) == kKeepUnit.end()) return {};
  std::size_t argument_end = begin + 2;
  while (argument_end + 1 < end && tokens[argument_end] != "," && tokens[argument_end] != "(") ++argument_end;
  const bool is_plain = argument_end + 1 == end || tokens[argument_end] == ",";
  return is_plain && std::find(tokens.begin() + static_cast<std::ptrdiff_t>(argument_end),
                               tokens.begin() + static_cast<std::ptrdiff_t>(end) - 1,
                               ")") == tokens.begin() + static_cast<std::ptrdiff_t>(end) - 1
             ? column(begin + 2, argument_end)
             : std::string_view{};
}

// Where the item that ends before `end` begins: behind the comma, the parenthesis or the word before it.
std::size_t StartOfItem(const std::vector<std::string>& tokens, std::size_t end) {
  int depth = 0;
  for (std::size_t i = end; i-- > 0;) {
    if (tokens[i] == ")") ++depth;
    if (tokens[i] == "(" && --depth < 0) return i + 1;
    if (depth == 0 && (tokens[i] == "," || tokens[i] == "select" || tokens[i] == "distinct")) return i + 1;
  }
  return 0;
}

std::string Format(double value, const char* format) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// Three digits that matter: "1.23", "12.3", "123", "1234".
std::string Short(double value) {
  const double size = std::fabs(value);
  return Format(value, size >= 99.95 ? "%.0f" : size >= 9.995 ? "%.1f" : "%.2f");
}

std::string HumanBytes(double bytes) {
  constexpr std::array<const char*, 5> kNames{" KB", " MB", " GB", " TB", " PB"};
  if (std::fabs(bytes) < 1024) return Format(bytes, "%.4g") + " B";
  std::size_t i = 0;
  for (bytes /= 1024; std::fabs(bytes) >= 1023.95 && i + 1 < kNames.size(); ++i) bytes /= 1024;
  return Short(bytes) + kNames[i];
}

std::string HumanSeconds(double seconds) {
  const double size = std::fabs(seconds);
  if (size == 0) return "0 s";
  if (size < 0.9995e-6) return Format(seconds * 1e9, "%.3g") + " ns";
  if (size < 0.9995e-3) return Short(seconds * 1e6) + " µs";
  if (size < 0.9995) return Short(seconds * 1e3) + " ms";
  if (size < 120) return Short(seconds) + " s";
  const auto whole = static_cast<long long>(std::llround(size));
  const std::string sign = seconds < 0 ? "-" : "";
  if (whole < 3600) return sign + std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  if (whole < 86400)
    return sign + std::to_string(whole / 3600) + " h " + std::to_string(whole / 60 % 60) + " min";
  return sign + std::to_string(whole / 86400) + " d " + std::to_string(whole / 3600 % 24) + " h";
}

// How many seconds one of it is; 0 for what is no time.
double SecondsOf(std::string_view unit) {
  return unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "us" ? 1e-6 : unit == "ns" ? 1e-9 : 0;
}

}  // namespace

Units::Units(std::string_view sql) {
  const std::vector<std::string> tokens = Tokens(sql);
  const auto names = [&](std::string_view word) {
    return std::ranges::find(tokens, Lower(word)) != tokens.end();
  };
  for (const table::Table* table : table::AllTables()) {
    if (!names(table::LastNameOf(table->name))) continue;
    for (const table::Column& column : table->columns) {
      const auto [at, is_new] = units_.emplace(std::string(column.name), column.unit);
      if (!is_new && at->second != column.unit) at->second = "";  // two tables that differ
    }
  }
  units_.erase("timestamp_ns");
  // Names that the query gives hide those of the tables.
  std::map<std::string, std::string_view, std::less<>> given;
  for (std::size_t i = 1; i + 1 < tokens.size(); ++i) {
    if (tokens[i] != "as" || !IsName(tokens[i + 1])) continue;
    const auto unit_of = [&](const std::string& name) -> std::string_view {
      const auto found = units_.find(name);
      return found == units_.end() ? std::string_view() : found->second;
    };
    given[tokens[i + 1]] = UnitOfItem(tokens, StartOfItem(tokens, i), i, unit_of);
  }
  for (const auto& [name, unit] : given) units_[name] = unit;
}

std::string_view Units::UnitOf(std::string_view column) const {
  const std::string name = Lower(column);
  if (const auto found = units_.find(name); found != units_.end()) return found->second;
  const std::vector<std::string> tokens = Tokens(name);
  if (tokens.size() < 4) return {};
  return UnitOfItem(tokens, 0, tokens.size(), [this](const std::string& inner) -> std::string_view {
    const auto found = units_.find(inner);
    return found == units_.end() ? std::string_view() : found->second;
  });
}

std::string HumanNumber(const std::string& text, std::string_view unit, bool is_integer) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != '\0' || !std::isfinite(value)) return text;
  if (unit == "bytes") return HumanBytes(value);
  if (unit == "MB") return HumanBytes(value * 1048576);
  if (unit == "bytes/s") return HumanBytes(value) + "/s";
  if (const double seconds = SecondsOf(unit); seconds > 0) {
    if (std::fabs(value * seconds) < kLongestSeconds) return HumanSeconds(value * seconds);
    return text;
  }
  if (unit == "%") return Format(value, "%.1f") + " %";
  const std::string number = is_integer ? text : Format(value, "%.6g");
  const bool is_counted =
      unit.empty() || unit == "rows" || unit == "lanes" || unit == "ticks" || unit == "JSON";
  return is_counted ? number : number + " " + std::string(unit);
}

}  // namespace probing::query
