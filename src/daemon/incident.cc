#include "daemon/incident.h"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/quote.h"
#include "base/text.h"
#include "daemon/diagnosis.h"
#include "daemon/host_name.h"
#include "daemon/incident_secrets.h"
#include "incident/contents.h"
#include "incident/writer.h"
#include "query/gathered_rows.h"
#include "query/schema.h"
#include "table/registry.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using server::Request;

namespace {

constexpr std::int64_t kStoredTimeoutMs = 5000;
constexpr std::int64_t kLiveTimeoutMs = 3000;
constexpr std::uint64_t kMostRows = 200'000;
constexpr std::uint64_t kMostTableBytes = 128U << 20;  // unpacked
constexpr std::uint64_t kMostBytes = 512U << 20;       // unpacked, of all tables
constexpr int kTries = 4;

// Live tables that say something about this moment, what passes first. What only the probe can say comes
// last: it takes the GIL, for which a job that hangs may wait in vain.
constexpr std::array<std::string_view, 18> kLiveTables{
    "probing.targets",        "python.stacks",  "python.backtrace",  "system.process",
    "python.native_stacks",   "python.samples", "system.kernel_log", "nccl.ras_communicators",
    "nccl.ras_ranks",         "cluster.nodes",  "probing.config",    "probing.history",
    "python.flight_recorder", "python.threads", "python.compiles",   "python.graph_breaks",
    "probing.overhead",       "python.imports",
};

// Never in a file unless asked for, or dear.
bool IsLeftOut(std::string_view column, const IncidentRequest& request) {
  return column == "source" || (column == "locals" && !request.locals);
}

// One table, as it is asked for and as it is written.
struct Wanted {
  incident::TableHead head;
  bool is_series = false;
  bool is_live = false;
  bool is_of_host = false;
  bool is_of_probe = false;
  std::uint64_t there = 0;  // rows, of a stored table
};

Wanted WantedOf(const table::Table& table, const IncidentRequest& request) {
  Wanted wanted;
  wanted.head.name = table.name;
  wanted.is_series = table::IsSeries(table);
  wanted.is_live = table.kind == table::Kind::kLive;
  // What the kernel logs is about no process that is known to have a job.
  wanted.is_of_host = table.about == table::About::kHost || table.name == "system.kernel_log";
  wanted.is_of_probe = table.origin == table::Origin::kProbe;
  const std::vector<table::Column> columns = table::SqlColumns(table);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == table::kExactTime.name && i >= table.columns.size()) continue;
    if (IsLeftOut(columns[i].name, request)) continue;
    wanted.head.columns.push_back({std::string(columns[i].name), columns[i].type});
    if (i < table.columns.size()) ++wanted.head.own;
  }
  return wanted;
}

// What follows words like these on a command line, or in a launcher's variable, is nobody's business.
std::string Selected(const incident::Column& column) {
  const std::string name = query::QuoteName(column.name);
  if (column.type == table::Type::kTimestamp)
    return column.name == "timestamp" ? "timestamp_ns" : "epoch_us(" + name + ") * 1000 AS " + name;
  if (column.name == "cmdline")
    return "regexp_replace(" + name +
           R"(, '(?i)([a-z_-]*(?:token|passw(?:or)?d|secret|api[-_]?key|credential)[a-z_-]*[= ])\S+', '\1***',)"
           R"( 'g') AS )" +
           name;
  return name;
}

std::string TableName(const std::string& table, bool everywhere) {
  const std::string_view schema = table::SchemaOf(table);
  const std::string name = query::QuoteName(table::LastNameOf(table));
  const std::string prefix = everywhere ? "global." : "";
  if (schema == "main") return prefix + name;
  // Tables of `system` are found by replacement only (query/scan_function.cc).
  return prefix + (schema == "system" ? "system" : query::QuoteName(schema)) + "." + name;
}

// The newest `most` rows, the oldest of them first; all of them when `most` is 0.
std::string SqlFor(const Wanted& wanted, const IncidentRequest& request, std::uint64_t most) {
  std::string columns;
  for (const incident::Column& column : wanted.head.columns)
    columns += (columns.empty() ? "" : ", ") + Selected(column);
  std::string sql = "SELECT " + columns + " FROM " + TableName(wanted.head.name, !request.job.empty());
  if (!request.job.empty() && !wanted.is_of_host) sql += " WHERE job = " + QuoteForSql(request.job);
  if (most == 0) return sql;
  if (!wanted.is_series) return sql + " LIMIT " + std::to_string(most);
  return "SELECT * FROM (" + sql + " ORDER BY timestamp_ns DESC LIMIT " + std::to_string(most) +
         ") ORDER BY timestamp_ns";
}

class Collector {
 public:
  Collector(Daemon& daemon, const IncidentRequest& request) : daemon_(daemon), request_(request) {}

  asio::awaitable<Result<std::string>> Collect() {
    co_await daemon_.targets.Refresh();
    base_.ranks = co_await Aside(daemon_, [] { return process::FindRanks(); });
    base_.target = request_.target;
    base_.job = request_.job;
    base_.shows_locals = request_.locals;
    std::set<pid_t> pids;
    for (const Target* target : daemon_.targets.Known()) pids.insert(target->pid);
    for (const process::RankProcess& rank : base_.ranks) pids.insert(rank.pid);
    if (request_.target) pids.insert(*request_.target);
    std::vector<std::string> tokens;
    for (const server::Right right : {server::Right::kRead, server::Right::kProfile, server::Right::kEval})
      tokens.push_back(daemon_.access.TokenOf(right));
    secrets_ = co_await Aside(daemon_, [&] { return FindSecrets(tokens, pids); });
    const std::int64_t began_ns = WallNs();
    const Result<Json> diagnosis = co_await Diagnosed();
    if (!diagnosis.ok()) co_return diagnosis.error();
    co_await daemon_.targets.ReadCollectives(request_.target);
    // From here on, so that what is found in the file is what has just been found.
    const std::int64_t recorded_ns = WallNs();
    for (const std::string_view name : kLiveTables) co_await Add(WantedOf(*table::FindTable(name), request_));
    const Result<std::vector<Wanted>> stored = co_await StoredTables();
    if (!stored.ok()) co_return stored.error();
    for (const Wanted& wanted : *stored) co_await Add(wanted);
    if (rows_ == 0)
      co_return Error{Code::kNotFound, "there is no process to write an incident of",
                      "`probing ps` shows those of this host"};
    utsname kernel{};
    uname(&kernel);
    Json about{{"version", PROBING_VERSION},
               {"host", HostName()},
               {"kernel", std::string(kernel.release)},
               {"reason", request_.reason},
               {"began_ns", began_ns},
               {"recorded_ns", recorded_ns},
               {"target", request_.target ? Json(*request_.target) : Json()},
               {"job", request_.job.empty() ? Json() : Json(request_.job)},
               {"locals", request_.locals},
               {"diagnosis", *diagnosis},
               {"processes", processes_.size()},
               {"problems", problems_}};
    co_return co_await Aside(daemon_, [&] { return writer_.Finish(std::move(about), secrets_); });
  }

 private:
  asio::awaitable<Result<Json>> Diagnosed() {
    Request request;
    request.path = "incident";
    request.body = Json::object();
    if (request_.target) request.body["target"] = *request_.target;
    if (!request_.job.empty()) request.body["job"] = request_.job;
    co_return co_await Diagnose(daemon_, request);
  }

  asio::awaitable<Result<Json>> Rows(std::string sql) {
    Request request = RowsRequest(std::move(sql));
    if (!request_.job.empty()) request.body["job"] = request_.job;
    co_return co_await QueryRows(daemon_, std::move(request), request_.target);
  }

  // Those that have rows, with the job's own; the small ones first.
  asio::awaitable<Result<std::vector<Wanted>>> StoredTables() {
    const std::string prefix = request_.job.empty() ? "" : "global.";
    const Result<Json> counts =
        co_await Rows("SELECT table_name, CAST(sum(rows) AS BIGINT) FROM " + prefix +
                      "probing.drops GROUP BY table_name HAVING sum(rows) > 0 ORDER BY 2, 1");
    if (!counts.ok()) co_return counts.error();
    const Result<Json> columns = co_await Rows(
        "SELECT table_name, column_name, type FROM probing.columns ORDER BY table_name, position");
    if (!columns.ok()) co_return columns.error();
    std::vector<Wanted> stored;
    for (const Json& row : (*counts)["rows"]) {
      const std::string name = LowerCase(row[0].get<std::string>());
      const table::Table* declared = table::FindTable(name);
      Wanted wanted =
          declared != nullptr ? WantedOf(*declared, request_) : WantedOfJob(name, (*columns)["rows"]);
      if (wanted.head.own == 0) continue;
      wanted.there = row[1].get<std::uint64_t>();
      stored.push_back(std::move(wanted));
    }
    co_return stored;
  }

  // A table that the job made, by its rows in probing.columns.
  static Wanted WantedOfJob(const std::string& name, const Json& columns) {
    Wanted wanted;
    wanted.head.name = name;
    for (const Json& row : columns) {
      if (row[0] != name) continue;
      for (const table::Type type : {table::Type::kInt64, table::Type::kDouble, table::Type::kBool,
                                     table::Type::kString, table::Type::kBytes, table::Type::kTimestamp}) {
        if (row[2] == table::SqlTypeName(type))
          wanted.head.columns.push_back({row[1].get<std::string>(), type});
      }
    }
    std::vector<incident::Column>& own = wanted.head.columns;
    if (own.empty()) return wanted;
    wanted.is_series = own.front().name == "timestamp";
    if (own.back().name == table::kExactTime.name) own.pop_back();
    wanted.head.own = own.size();
    const auto common = table::CommonColumns();
    for (auto each = common.rbegin(); each != common.rend() && wanted.head.own > 0; ++each)
      wanted.head.own -= own[wanted.head.own - 1].name == each->name ? 1 : 0;
    return wanted;
  }

  asio::awaitable<void> Add(Wanted wanted) {
    if (wanted.is_live && wanted.is_of_probe && is_probe_silent_) {
      co_return Note(wanted.head.name + " is left out: the probes do not answer");
    }
    std::uint64_t most = wanted.there > kMostRows || wanted.head.name == "python.samples" ? kMostRows : 0;
    for (int i = 0; i < kTries; ++i) {
      Queries::Collecting collecting = base_;
      collecting.sql = SqlFor(wanted, request_, most);
      collecting.timeout_ms = wanted.is_live ? kLiveTimeoutMs : kStoredTimeoutMs;
      Result<Queries::Collected> collected = co_await daemon_.queries.Collect(collecting);
      if (!collected.ok()) {
        is_probe_silent_ = is_probe_silent_ || wanted.is_of_probe;
        co_return Note(wanted.head.name + " is left out: " + collected.error().message);
      }
      NoteMissingHosts(collected->receipt);
      const auto rows = static_cast<std::uint64_t>(collected->answer.rows);
      incident::Block block = co_await Aside(daemon_, [&] {
        FindProcesses(wanted, collected->answer.body);
        incident::Redact(collected->answer.body, secrets_);
        return incident::MakeBlock(std::move(collected->answer.body));
      });
      const std::uint64_t room = (request_.max_bytes - std::min(request_.max_bytes, writer_.bytes())) / 2;
      const std::uint64_t most_unpacked = std::min(kMostTableBytes, (kMostBytes - unpacked_) / 2);
      if (block.bytes.size() <= room && block.unpacked <= most_unpacked) {
        wanted.head.rows = rows;
        if (wanted.there > rows) wanted.head.left_out = wanted.there - rows;
        co_return Write(std::move(wanted.head), std::move(block));
      }
      const double share = std::min(static_cast<double>(room) / static_cast<double>(block.bytes.size() + 1),
                                    static_cast<double>(most_unpacked) / static_cast<double>(block.unpacked));
      most = static_cast<std::uint64_t>(0.8 * share * static_cast<double>(rows));
      if (wanted.is_live) wanted.head.left_out += rows - most;
      if (most == 0) break;
    }
    Note(wanted.head.name + " is left out: there is no room for it");
  }

  void Write(incident::TableHead head, incident::Block block) {
    unpacked_ += block.unpacked;
    rows_ += head.rows;
    if (head.left_out > 0)
      Note(std::to_string(head.left_out) + " older rows of " + head.name + " had no room");
    writer_.Add(std::move(head), std::move(block));
  }

  void FindProcesses(const Wanted& wanted, const std::string& frame) {
    if (wanted.head.name != "python.stacks" && wanted.head.name != "probing.targets") return;
    std::vector<table::Type> types;
    std::size_t column = 0;
    for (const incident::Column& each : wanted.head.columns) {
      if (each.name == "pid") column = types.size();
      types.push_back(each.type);
    }
    const Result<query::GatheredRows> rows = query::GatheredRows::Parse(frame, types);
    if (!rows.ok()) return;
    const char* at = rows->column(column);
    for (std::size_t row = 0; row < rows->size(); ++row) {
      if (*at++ == 0) continue;
      std::int64_t pid = 0;
      std::memcpy(&pid, at, sizeof pid);
      at += sizeof pid;
      processes_.insert(pid);
    }
  }

  void NoteMissingHosts(const cluster::Receipt& receipt) {
    if (!receipt.gathered()) return;
    const Json json = Json::parse(receipt.ToJson(), nullptr, false);
    for (const Json& missing : json.value("failed", Json::array())) {
      Note(missing.value("node", "") + " is not in it: " + missing.value("reason", ""));
    }
  }

  void Note(std::string problem) {
    if (std::ranges::find(problems_, problem) == problems_.end()) problems_.push_back(std::move(problem));
  }

  Daemon& daemon_;
  const IncidentRequest& request_;
  Queries::Collecting base_;
  incident::Writer writer_;
  std::vector<std::string> secrets_;
  std::set<std::int64_t> processes_;
  std::vector<std::string> problems_;
  std::uint64_t unpacked_ = 0, rows_ = 0;
  bool is_probe_silent_ = false;
};

}  // namespace

asio::awaitable<Result<std::string>> CollectIncident(Daemon& daemon, const IncidentRequest& request) {
  Collector collector(daemon, request);
  co_return co_await collector.Collect();
}

}  // namespace probing::daemon
