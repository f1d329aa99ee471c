#include "store/answer.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/text.h"
#include "store/names.h"
#include "store/schema.h"
#include "table/rows.h"

namespace probing::store {
namespace {

constexpr std::size_t kMaxAnswerBytes = 64UL << 20;
constexpr std::int64_t kSlackMs = 2'000;  // the server's own error says more than ours

std::string_view Inner(std::string_view type) {
  for (const std::string_view around : {"LowCardinality(", "Nullable("}) {
    if (type.starts_with(around) && type.ends_with(")"))
      type = type.substr(around.size(), type.size() - around.size() - 1);
  }
  return type;
}

bool IsInteger(std::string_view type) { return type.starts_with("Int") || type.starts_with("UInt"); }

// DuckDB's type for one of ClickHouse's; what has none of its own is text.
std::string TypeFor(std::string_view type) {
  type = Inner(type);
  if (type == "UInt64") return "UBIGINT";
  if (type == "Bool") return "BOOLEAN";
  if (IsInteger(type) && !type.ends_with("128") && !type.ends_with("256")) return "BIGINT";
  if (type.starts_with("Float")) return "DOUBLE";
  if (type == "Date" || type == "Date32") return "DATE";
  if (type.starts_with("DateTime"))
    return type.find("'UTC'") != std::string_view::npos ? "TIMESTAMPTZ" : "TIMESTAMP";
  if (type.starts_with("Array(") && IsInteger(Inner(type.substr(6, type.size() - 7)))) return "BIGINT[]";
  return "VARCHAR";
}

// A field of the answer without its escapes.
std::string Unescaped(std::string_view field) {
  std::string text;
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (field[i] != '\\' || i + 1 == field.size()) {
      text += field[i];
      continue;
    }
    constexpr std::string_view kEscapes = "btnrf0";
    constexpr std::string_view kMeanings{"\b\t\n\r\f\0", 6};
    const std::size_t which = kEscapes.find(field[++i]);
    text += which == std::string_view::npos ? field[i] : kMeanings[which];
  }
  return text;
}

// As a text of JSON inside a text of SQL. NUL, which our engine does not take, is a replacement character.
void AppendJsonText(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\0') {
      out += "\\ufffd";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else {
      if (c == '"' || c == '\\') out += '\\';
      if (c == '\'') out += '\'';  // of SQL
      out += c;
    }
  }
  out += '"';
}

// Bytes that are no UTF-8 are replaced.
std::string Readable(std::string_view text) { return table::ToUtf8(text); }

void AppendField(std::string& out, std::string_view field, std::string_view type) {
  // Not nan or inf, and nothing that a server would make of our statement.
  const bool is_number =
      !field.empty() && field.find_first_not_of("0123456789+-.eE[,]") == std::string_view::npos;
  if (field == "\\N") {
    out += "null";
  } else if (is_number && (type == "BIGINT" || type == "UBIGINT" || type == "BIGINT[]")) {
    out += field;
  } else if (is_number && type == "DOUBLE") {
    out += field;
    if (field.find_first_of(".eE") == std::string_view::npos) out += ".0";  // so that -0 is no integer
  } else {
    AppendJsonText(out, Readable(Unescaped(field)));
  }
}

// "name" for SQL.
std::string Identifier(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : Readable(name)) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::vector<std::string_view> Split(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t tab = line.find('\t');
    fields.push_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

Result<std::set<std::string, std::less<>>> TablesThere(const Client& client) {
  ASSIGN_OR_RETURN(const std::string answer,
                   client.Run({.sql = "SELECT name FROM system.tables WHERE database = " +
                                      Literal(client.url().database) + " FORMAT TabSeparatedRaw",
                               .data = {},
                               .settings = {}}));
  std::set<std::string, std::less<>> tables;
  for (std::string_view rest = answer; !rest.empty();) tables.insert(TableName(TakePart(rest, '\n')));
  return tables;
}

}  // namespace

Result<std::string> AskStore(const Client& client, std::string_view sql, const AskOptions& options) {
  ASSIGN_OR_RETURN(const auto tables, TablesThere(client));
  Question question;
  question.sql = WithStoredNames(Trim(sql, " \t\r\n;"), tables, client.url().database);
  question.timeout_ms = options.timeout_ms + kSlackMs;
  question.max_bytes = kMaxAnswerBytes;
  question.settings = {
      {"database", client.url().database},
      {"default_format", "TabSeparatedWithNamesAndTypes"},
      // Only reading; settings may be said with the question, as these are.
      {"readonly", "2"},
      {"max_execution_time", std::to_string(std::max<std::int64_t>(options.timeout_ms / 1000, 1))},
      {"max_result_rows", std::to_string(options.max_rows)},
      {"result_overflow_mode", "throw"},
      // Errors that come late are errors, too, and not the end of a short answer.
      {"wait_end_of_query", "1"}};
  ASSIGN_OR_RETURN(const std::string answer, client.Run(question));
  return ToSelect(answer);
}

Result<std::string> ToSelect(std::string_view answer) {
  const std::vector<std::string_view> names = Split(TakePart(answer, '\n'));
  const std::vector<std::string_view> types = Split(TakePart(answer, '\n'));
  if (names.size() != types.size() || types.front().empty())
    return Error{Code::kFailed, "the answer of the store has no columns",
                 "leave FORMAT out of the SQL: `probing query --format` chooses it"};
  std::string columns;
  std::string structure;
  std::vector<std::string> ours;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string key = "c" + std::to_string(i);
    ours.push_back(TypeFor(Unescaped(types[i])));
    columns += (i == 0 ? "r." : ", r.") + key + " AS " + Identifier(Unescaped(names[i]));
    structure += (i == 0 ? "\"" : ",\"") + key + "\":\"" + ours.back() + "\"";
  }
  std::string rows;
  while (!answer.empty()) {
    const std::vector<std::string_view> fields = Split(TakePart(answer, '\n'));
    if (fields.size() != names.size())
      return Error{Code::kFailed, "a row of the store's answer has other columns", ""};
    rows += rows.empty() ? "{" : ",{";
    for (std::size_t i = 0; i < fields.size(); ++i) {
      rows += (i == 0 ? "\"c" : ",\"c") + std::to_string(i) + "\":";
      AppendField(rows, fields[i], ours[i]);
    }
    rows += '}';
  }
  return "SELECT " + columns + " FROM (SELECT unnest(from_json('[" + rows + "]', '[{" + structure +
         "}]')) AS r)";
}

}  // namespace probing::store
