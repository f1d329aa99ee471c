#include "query/time_pruning.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>

#include "query/handles.h"
#include "query/schema.h"
#include "query/statement.h"
#include "query/time_range.h"
#include "table/text.h"

namespace probing::query {
namespace {

constexpr std::int64_t kManyBytes = 16 << 20;  // of rings: some hundred thousand rows
constexpr std::int64_t kLastOfMicrosecond = 999;

// The first value of a statement of ours, as T is stored; nothing for NULL and for errors.
template <typename T>
std::optional<T> FirstValue(const DuckDb& api, const ChunkHandle& chunk) {
  if (chunk.value == nullptr || api.data_chunk_get_size(chunk.value) == 0) return std::nullopt;
  duckdb_vector vector = api.data_chunk_get_vector(chunk.value, 0);
  const std::uint64_t* validity = api.vector_get_validity(vector);
  if (validity != nullptr && (validity[0] & 1) == 0) return std::nullopt;
  return *static_cast<const T*>(api.vector_get_data(vector));
}

std::optional<std::string> AskText(const DuckDb& api, duckdb_connection connection, const std::string& sql) {
  ResultHandle result;
  if (api.query(connection, sql.c_str(), &result.value) != DuckDBSuccess) return std::nullopt;
  const ChunkHandle chunk(api.fetch_chunk(result.value));
  const std::optional<table::Text> text = FirstValue<table::Text>(api, chunk);
  return text ? std::optional<std::string>(text->view()) : std::nullopt;
}

std::optional<std::int64_t> AskNumber(const DuckDb& api, duckdb_connection connection,
                                      const std::string& sql) {
  ResultHandle result;
  if (api.query(connection, sql.c_str(), &result.value) != DuckDBSuccess) return std::nullopt;
  const ChunkHandle chunk(api.fetch_chunk(result.value));
  return FirstValue<std::int64_t>(api, chunk);
}

std::optional<std::int64_t> EvaluateNs(const DuckDb& api, duckdb_connection connection,
                                       const std::string& expression_json) {
  const std::optional<std::string> select = AskText(
      api, connection, "SELECT json_deserialize_sql(" + QuoteText(SelectStatement(expression_json)) + ")");
  if (!select) return std::nullopt;
  const std::optional<std::int64_t> us =
      AskNumber(api, connection, "SELECT epoch_us(CAST((" + *select + ") AS TIMESTAMPTZ))");
  if (!us || *us > INT64_MAX / 1000 - 1 || *us < INT64_MIN / 1000) return std::nullopt;
  return *us * 1000;
}

// What the query calls a table, as the catalog does.
std::string PlainName(std::string name) {
  for (const std::string_view prefix : {"global.", "memory."}) {
    if (name.starts_with(prefix)) return name.substr(prefix.size());
  }
  return name;
}

}  // namespace

bool IsWorthPruning(const Scope& scope, std::string_view sql) {
  if (sql.find("timestamp") == std::string_view::npos) return false;
  if (scope.history || scope.gather) return true;
  std::int64_t bytes = 0;
  for (const table::Target& target : scope.targets) {
    for (const auto& fd : target.ring_fds) {
      struct stat info{};
      if (fstat(fd->get(), &info) == 0) bytes += info.st_blocks * 512;
    }
  }
  return bytes >= kManyBytes;
}

std::map<std::string, table::TimeRange, std::less<>> FindTimeRanges(const DuckDb& api,
                                                                    duckdb_connection connection,
                                                                    const ScanCatalog& catalog,
                                                                    const std::string& sql) {
  std::map<std::string, table::TimeRange, std::less<>> ranges;
  const std::optional<std::string> serialized =
      AskText(api, connection, "SELECT json_serialize_sql(" + QuoteText(sql) + ")");
  if (!serialized) return ranges;
  std::map<std::string, std::size_t> named;
  for (const TimeCondition& condition : FindTimeConditions(*serialized)) {
    const std::string table = PlainName(condition.table);
    // A view may read any table: of these nothing is known here.
    if (catalog.Find(table) == nullptr) return {};
    ++named[table];
    // All bounds of one place hold together; a table that is read in several is read for all.
    table::TimeRange here;
    for (const TimeBound& bound : condition.bounds) {
      const std::optional<std::int64_t> ns = EvaluateNs(api, connection, bound.sql_json);
      if (!ns) continue;
      if (bound.is_lower)
        here.from_ns = std::max(here.from_ns, *ns);
      else  // SQL compares microseconds
        here.to_ns = std::min(here.to_ns, *ns + kLastOfMicrosecond);
    }
    const auto [known, is_new] = ranges.try_emplace(table, here);
    if (is_new) continue;
    known->second.from_ns = std::min(known->second.from_ns, here.from_ns);
    known->second.to_ns = std::max(known->second.to_ns, here.to_ns);
  }
  // A table that is read more often than it is named is also read by somebody else.
  std::erase_if(ranges, [&](const auto& range) {
    const auto bound = catalog.bound().find(range.first);
    return bound == catalog.bound().end() || bound->second != named[range.first];
  });
  return ranges;
}

}  // namespace probing::query
