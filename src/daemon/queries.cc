#include "daemon/queries.h"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <future>

#include "daemon/live_tables.h"
#include "process/status.h"

namespace probing::daemon {
namespace asio = boost::asio;

namespace {

constexpr std::size_t kThreads = 2;
constexpr std::int64_t kMaxWidth = 10'000;

std::string ViewDirectory() {
  if (const char* config = std::getenv("XDG_CONFIG_HOME"); config != nullptr && *config == '/')
    return std::string(config) + "/probing";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? std::string(home) + "/.config/probing" : "";
}

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// What an HTTP client says it takes, when the request itself says nothing.
std::string FormatByAccept(const std::string& accept) {
  if (accept.find("application/vnd.apache.arrow.stream") != std::string::npos) return "arrow";
  if (accept.find("text/csv") != std::string::npos) return "csv";
  if (accept.find("application/vnd.apache.parquet") != std::string::npos) return "parquet";
  if (accept.find("application/x-ndjson") != std::string::npos) return "jsonl";
  if (accept.find("text/markdown") != std::string::npos) return "markdown";
  return accept.starts_with("text/plain") ? "table" : "rows";
}

Result<query::FormatOptions> FormatOf(const server::Request& request) {
  const server::Json& body = request.body;
  const auto format = body.find("format");
  const auto width = body.find("width");
  if ((format != body.end() && !format->is_string()) ||
      (width != body.end() && !width->is_number_integer())) {
    return Error{Code::kUsage, "format is a name and width a number of characters", ""};
  }
  query::FormatOptions options;
  ASSIGN_OR_RETURN(options.format, query::ParseFormat(format == body.end() ? FormatByAccept(request.accept)
                                                                           : format->get<std::string>()));
  if (width != body.end())
    options.width = static_cast<int>(std::clamp<std::int64_t>(width->get<std::int64_t>(), 0, kMaxWidth));
  return options;
}

}  // namespace

Queries::Queries(asio::io_context& io, Targets& targets, const Sampling& sampling,
                 const wire::Settings& settings)
    : io_(io),
      targets_(targets),
      sampling_(sampling),
      settings_(settings),
      client_({.view_directory = ViewDirectory()}),
      threads_(kThreads) {}

Result<query::QueryRequest> Queries::Prepare(const server::Request& request, std::optional<pid_t> target) {
  const auto sql = request.body.find("sql");
  if (sql == request.body.end() || !sql->is_string())
    return Error{Code::kUsage, "a query needs sql", "POST {\"sql\": \"SELECT …\"}"};
  query::QueryRequest prepared;
  prepared.sql = sql->get<std::string>();
  ASSIGN_OR_RETURN(prepared.format, FormatOf(request));
  prepared.limits.timeout_ms = static_cast<std::int64_t>(settings_.GetNumber("probing.query.timeout") * 1000);
  prepared.limits.memory_bytes = static_cast<std::int64_t>(settings_.GetNumber("probing.query.memory"));
  prepared.limits.rows = static_cast<std::int64_t>(settings_.GetNumber("probing.query.rows"));
  const std::string host = HostName();
  bool known = false;
  for (const Target* each : targets_.Known()) {
    const bool selected = !target || each->pid == *target;
    known = known || (target && selected);
    prepared.targets.push_back({.pid = each->pid, .rank = each->rank, .host = host, .selected = selected});
    prepared.targets.back().ring_fds = each->ring_fds;
  }
  // What is read from outside needs no probe.
  if (target && !known) {
    RETURN_IF_ERROR(process::ReadStatus(*target));
    prepared.targets.push_back({.pid = *target, .rank = std::nullopt, .host = host, .selected = true});
  }
  prepared.provider = [this](const table::Table& table, const table::Target* about,
                             const std::vector<std::size_t>& columns) {
    return Provide(table, about, columns);
  };
  return prepared;
}

Result<table::Rows> Queries::Provide(const table::Table& table, const table::Target* target,
                                     const std::vector<std::size_t>& columns) {
  if (table.origin == table::Origin::kProbe) return AskProbe(table, *target, columns);
  // The daemon's own state belongs to its one thread.
  std::promise<Result<table::Rows>> promise;
  std::future<Result<table::Rows>> rows = promise.get_future();
  asio::post(
      io_, [&] { promise.set_value(DaemonRows({targets_, sampling_, settings_}, table, target, columns)); });
  return rows.get();
}

asio::awaitable<Result<server::Content>> Queries::Answer(const server::Request& request,
                                                         std::optional<pid_t> target) {
  co_await targets_.Refresh();
  Result<query::QueryRequest> prepared = Prepare(request, target);
  if (!prepared.ok()) co_return prepared.error();
  query::QueryAnswer answer = co_await asio::co_spawn(
      threads_,
      [this, &prepared]() -> asio::awaitable<query::QueryAnswer> { co_return client_.Run(*prepared); },
      asio::use_awaitable);
  if (answer.error) {
    const std::string hint = std::exchange(answer.error->hint, "");
    co_return Error{answer.error->code, answer.error->Text(prepared->sql), hint};
  }
  co_return server::Content{query::ContentType(prepared->format.format), std::move(answer.body), 200, {}};
}

}  // namespace probing::daemon
