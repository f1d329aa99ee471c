#include "query/sql_mistake.h"

#include <string>
#include <vector>

#include "base/nearest.h"
#include "base/text.h"
#include "table/registry.h"
#include "table/types.h"

namespace probing::query {
namespace {

// What stands between the first two quotes after `at`; "" when there is none.
std::string_view Quoted(std::string_view text, std::size_t at) {
  const std::size_t begin = text.find('"', at);
  const std::size_t end = begin == std::string_view::npos ? begin : text.find('"', begin + 1);
  return end == std::string_view::npos ? std::string_view() : text.substr(begin + 1, end - begin - 1);
}

// The names DuckDB offers: Candidate bindings: "a", "t.b".
std::vector<std::string_view> Candidates(std::string_view message) {
  std::vector<std::string_view> names;
  std::size_t at = message.find("Candidate");
  while (at != std::string_view::npos) {
    const std::string_view name = Quoted(message, at);
    if (name.empty()) break;
    names.push_back(name.substr(name.rfind('.') + 1));
    at = static_cast<std::size_t>(name.data() - message.data()) + name.size() + 1;
  }
  return names;
}

// The name, with its schema, that stands in the SQL at the place of the error.
std::string_view NameAt(std::string_view sql, const SqlError& error) {
  if (error.line <= 0 || error.column <= 0) return {};
  for (int line = 1; line < error.line; ++line) TakePart(sql, '\n');
  std::string_view rest = sql;
  for (int column = 1; column < error.column && !rest.empty(); ++column) {
    do rest.remove_prefix(1);
    while (!rest.empty() && (static_cast<unsigned char>(rest[0]) & 0xC0) == 0x80);  // inside a character
  }
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  std::size_t size = 0;
  while (size < rest.size() && is_part(rest[size])) ++size;
  return rest.substr(0, size);
}

// The table that was meant: the nearest name, or the only one that has the same last name.
std::string_view NearestTable(std::string_view name, std::span<const std::string_view> tables) {
  for (const std::string_view table : tables) {
    const std::size_t dot = table.rfind('.');
    if (dot != std::string_view::npos && table.substr(dot + 1) == name.substr(name.rfind('.') + 1))
      return table;
  }
  return Nearest(name, tables);
}

void NameTable(SqlError& error, std::string_view sql, std::span<const std::string_view> tables) {
  constexpr std::string_view kBefore = "Table with name ";
  const std::size_t at = error.message.find(kBefore);
  std::string name(NameAt(sql, error));
  if (name.empty())
    name = error.message.substr(at + kBefore.size(),
                                error.message.find(" does not exist") - at - kBefore.size());
  const std::string_view nearest = NearestTable(name, tables);
  error.message = "table " + name + " does not exist";
  error.hint = (nearest.empty() ? "" : "did you mean " + std::string(nearest) + "? ") +
               std::string("`probing tables` lists all tables");
}

// The columns of all tables that the SQL names.
std::vector<std::string_view> ColumnsNear(std::string_view sql) {
  std::vector<std::string_view> names;
  for (const table::Table* table : table::AllTables()) {
    if (sql.find(table->name) == std::string_view::npos) continue;
    for (const table::Column& column : table->columns) names.push_back(column.name);
  }
  return names;
}

void NameColumn(SqlError& error, std::string_view sql, std::string_view column) {
  std::vector<std::string_view> candidates = Candidates(error.message);
  if (candidates.empty()) candidates = ColumnsNear(sql);  // DuckDB offers none of a view that has an alias
  const std::string_view nearest = Nearest(column, candidates);
  std::string hint = nearest.empty() ? "" : "did you mean " + std::string(nearest) + "? ";
  hint += "`probing tables TABLE` lists the columns of a table";
  error.message = "column " + std::string(column) + " does not exist";
  error.hint = std::move(hint);
}

}  // namespace

void NameWhatWasMeant(SqlError& error, std::string_view sql, std::span<const std::string_view> tables) {
  const bool is_of_engine = error.message.starts_with("Parser Error: ") ||
                            error.message.starts_with("Binder Error: ") ||
                            error.message.starts_with("Catalog Error: ");
  if (error.code != Code::kUsage || !is_of_engine) return;
  const std::string message = error.message;
  const std::size_t column = message.find("Referenced column ");
  const std::size_t member = message.find(" does not have a column named ");
  if (message.starts_with("Catalog Error: Table with name ")) {
    NameTable(error, sql, tables);
  } else if (column != std::string::npos && !Quoted(message, column).empty()) {
    NameColumn(error, sql, Quoted(message, column));
  } else if (member != std::string::npos && !Quoted(message, member).empty()) {
    NameColumn(error, sql, Quoted(message, member));
  } else {
    error.message.erase(0, message.find(": ") + 2);  // "Parser Error: "
  }
}

}  // namespace probing::query
