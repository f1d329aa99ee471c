#include "daemon/queries.h"

#include <sys/stat.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <future>

#include "base/file.h"
#include "base/text.h"
#include "cluster/packing.h"
#include "daemon/aside.h"
#include "daemon/host_name.h"
#include "daemon/live_tables.h"
#include "process/status.h"
#include "table/history_files.h"
#include "table/registry.h"
#include "wire/config_directory.h"
#include "wire/contract.h"
#include "wire/diagnosis.h"

namespace probing::daemon {
namespace asio = boost::asio;

namespace {

constexpr std::size_t kThreads = 2;
constexpr std::int64_t kMaxWidth = 10'000;
constexpr auto kRecordedKept = std::chrono::seconds(20);

query::ClientOptions ClientOptions() { return {.view_directory = wire::ConfigDirectory()}; }

// Changes whenever a file there does.
std::string DescribeViews(const std::string& directory) {
  std::string text;
  const Result<std::vector<std::string>> names = ListDirectory(directory);
  if (!names.ok()) return text;
  for (const std::string& name : *names) {
    struct stat info{};
    if (!name.ends_with(".sql") || stat((directory + "/" + name).c_str(), &info) != 0) continue;
    text += name + " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
            std::to_string(info.st_mtim.tv_nsec) + "\n";
  }
  return text;
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

// In every format as a field of the answer's head; in `rows`, which has a place for it, also beside them.
void AddReceipt(const cluster::Receipt& receipt, query::Format format, server::Content& content) {
  const std::string json = receipt.ToJson();
  content.headers.emplace_back(wire::kReceiptHeader, json);
  const std::size_t end = content.body.rfind('}');
  if (format == query::Format::kRows && end != std::string::npos)
    content.body.insert(end, ",\"receipt\":" + json);
}

// Who gave it, and packed if the one that asks takes that.
void PrepareForHost(const server::Request& request, const std::string& instance, server::Content& content) {
  content.headers.emplace_back(wire::kInstanceHeader, instance);
  if (request.accept_encoding.find(cluster::kPackedEncoding) == std::string::npos) return;
  std::string packed = cluster::Pack(content.body);
  if (packed.empty()) return;
  content.body = std::move(packed);
  content.headers.emplace_back("Content-Encoding", cluster::kPackedEncoding);
}

// What is in variables is what code in the process could read.
bool ShowsLocals(const server::Request& request) { return request.right >= server::Right::kEval; }
bool MayHold(const server::Request& request) { return request.right >= server::Right::kProfile; }

// Of what torch records itself the probes' rings have nothing until it is asked for.
enum class Collectives : std::uint8_t { kNone, kOfTarget, kOfAll };
Collectives CollectivesIn(const server::Request& request) {
  const auto sql = request.body.find("sql");
  if (sql == request.body.end() || !sql->is_string() || request.body.contains("directory"))
    return Collectives::kNone;
  const std::string text = LowerCase(sql->get<std::string>());
  if (text.find("collective") == std::string::npos && text.find("process_groups") == std::string::npos)
    return Collectives::kNone;
  return text.find("global") == std::string::npos ? Collectives::kOfTarget : Collectives::kOfAll;
}

// The job that is asked about instead of one process.
std::optional<std::string> JobOf(const server::Request& request) {
  const auto job = request.body.find("job");
  if (job == request.body.end() || !job->is_string()) return std::nullopt;
  return job->get<std::string>();
}

bool HasHistoryOf(const std::optional<table::HistoryScope>& history) {
  return history && !table::ListHistory(history->directory, {.pid = history->pid}).empty();
}

}  // namespace

Queries::Queries(asio::io_context& io, Targets& targets, const Sampling& sampling, const History& history,
                 const Outlets& outlets, OtherHosts& hosts, const wire::Settings& settings)
    : io_(io),
      targets_(targets),
      sampling_(sampling),
      history_(history),
      outlets_(outlets),
      hosts_(hosts),
      settings_(settings),
      views_(DescribeViews(wire::ConfigDirectory())),
      recorded_until_(io),
      shared_(io),
      own_(ClientOptions(), kThreads),
      unseen_(io, own_.threads, targets) {}

Result<query::QueryRequest> Queries::Prepare(const server::Request& request, std::optional<pid_t> target,
                                             const std::vector<process::RankProcess>& ranks,
                                             cluster::Gathering& gathering) {
  const auto sql = request.body.find("sql");
  if (sql == request.body.end() || !sql->is_string())
    return Error{Code::kUsage, "a query needs sql", "POST {\"sql\": \"SELECT …\"}"};
  query::QueryRequest prepared;
  prepared.sql = sql->get<std::string>();
  prepared.cancellation = std::make_shared<query::Cancellation>();
  ASSIGN_OR_RETURN(prepared.format, FormatOf(request));
  prepared.limits.timeout_ms = static_cast<std::int64_t>(settings_.GetNumber("probing.query.timeout") * 1000);
  prepared.limits.memory_bytes = static_cast<std::int64_t>(settings_.GetNumber("probing.query.memory"));
  prepared.limits.rows = static_cast<std::int64_t>(settings_.GetNumber("probing.query.rows"));
  // A directory that somebody kept has all that there is to know: nobody lives in it.
  if (const auto directory = request.body.find("directory"); directory != request.body.end()) {
    if (request.right != server::Right::kOwn)
      return Error{Code::kPermission, "directories can be asked for over the unix socket only",
                   "run `probing -t DIR query …` on the machine that has it"};
    if (!directory->is_string() || !directory->get<std::string>().starts_with('/'))
      return Error{Code::kUsage, "directory is an absolute path", ""};
    prepared.history = {directory->get<std::string>(), std::nullopt};
    return prepared;
  }
  const std::optional<std::string> job = JobOf(request);
  if (const std::optional<std::string> directory = history_.directory())
    prepared.history = {*directory, target ? std::optional<std::int64_t>(*target) : std::nullopt, job};
  const std::string host = HostName();
  bool known = false;
  for (const Target* each : targets_.Known()) {
    const bool selected = (!target || each->pid == *target) && (!job || each->identity.JobName() == *job);
    known = known || ((target || job) && selected);
    prepared.targets.push_back(
        {.pid = each->pid, .rank = each->identity.rank, .host = host, .selected = selected});
    prepared.targets.back().job = each->identity.JobName();
    prepared.targets.back().ring_fds = each->ring_fds;
  }
  // What is read from outside needs no probe; what files have needs no process.
  if (target && !known) {
    const Result<process::Status> status = process::ReadStatus(*target);
    if (!status.ok() && !HasHistoryOf(prepared.history)) return status.error();
    if (!status.ok()) return prepared;
    const process::JobIdentity identity = process::ReadJobIdentity(*target);
    prepared.targets.push_back({.pid = *target, .rank = identity.rank, .host = host, .selected = true});
    prepared.targets.back().job = identity.JobName();
  }
  for (const process::RankProcess& rank : ranks) {
    if ((job && rank.identity.job != *job) || targets_.Knows(rank.pid)) continue;
    known = true;
    prepared.targets.push_back({.pid = rank.pid,
                                .rank = rank.identity.rank,
                                .host = host,
                                .job = rank.identity.job,
                                .selected = true});
  }
  if (job) {
    if (!known && !prepared.history)
      return Error{Code::kNotFound, "there is no job " + *job + " on this host",
                   "`probing list` shows the jobs"};
  }
  for (table::Target& each : prepared.targets) {
    each.shows_locals = ShowsLocals(request);
    each.may_hold = MayHold(request);
  }
  prepared.provider = [this, &gathering](const table::Table& table, const table::Target* about,
                                         const std::vector<std::size_t>& columns) {
    return Provide(table, about, columns, gathering);
  };
  // A question of another host is about this one: it is not passed on.
  if (gathering.has_peers() && prepared.format.format != query::Format::kFrame)
    prepared.gatherer = [&gathering, shows_locals = ShowsLocals(request), may_hold = MayHold(request)](
                            const query::GatherRequest& wanted) -> Result<std::vector<std::string>> {
      // The other host would judge by our token, not by the one who asks us.
      for (const query::GatherRequest::Column& column : wanted.columns) {
        if (!shows_locals && column.name == "locals")
          return Error{Code::kPermission, "local variables of other hosts take the right to eval",
                       "name the columns you need, without locals"};
      }
      if (!may_hold && wanted.table == "python.native_stacks")
        return Error{Code::kPermission, "native frames of other hosts take the right to profile", ""};
      return gathering.Gather(wanted);
    };
  return prepared;
}

Result<table::Rows> Queries::Provide(const table::Table& table, const table::Target* target,
                                     const std::vector<std::size_t>& columns, cluster::Gathering& gathering) {
  if (table.origin == table::Origin::kProbe) return AskProbe(table, *target, columns);
  cluster::Company company;
  if (table.name == "cluster.nodes") company = gathering.Meet();
  // The daemon's own state belongs to its one thread.
  std::promise<Result<table::Rows>> promise;
  std::future<Result<table::Rows>> rows = promise.get_future();
  asio::post(io_, [&] {
    promise.set_value(
        DaemonRows({targets_, sampling_, history_, outlets_, company, settings_}, table, target, columns));
  });
  return rows.get();
}

QueryPool& Queries::PoolFor(query::Format format) {
  if (format != query::Format::kFrame) return own_;
  return for_hosts_ ? *for_hosts_ : for_hosts_.emplace(ClientOptions(), kThreads);
}

asio::awaitable<query::QueryAnswer> Queries::Run(const query::QueryRequest& request, QueryPool& pool) {
  // The request outlives the operation: even a cancelled one is waited for.
  const auto start = [this, &pool, &request](auto handler) {
    std::make_shared<RunningQuery>(io_, pool, request, std::move(handler))->Start();
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(query::QueryAnswer)>(
      start, asio::use_awaitable);
}

// Workers read them once, when they start.
void Queries::NoticeNewViews() {
  std::string views = DescribeViews(wire::ConfigDirectory());
  if (views == views_) return;
  views_ = std::move(views);
  own_.client.Renew();
  if (for_hosts_) for_hosts_->client.Renew();
}

asio::awaitable<Result<std::shared_ptr<const RecordedJob>>> Queries::Recorded(std::string path) {
  std::shared_ptr<const RecordedJob> known = recorded_;
  if (known == nullptr || known->path() != path || !known->IsCurrent()) {
    recorded_.reset();
    known.reset();
    const auto most_events = static_cast<std::size_t>(settings_.GetNumber("probing.trace.events"));
    Result<std::shared_ptr<const RecordedJob>> job =
        co_await Aside(io_, own_.threads, [&] { return RecordedJob::Load(path, most_events); });
    if (!job.ok()) co_return job.error();
    known = recorded_ = *job;
  }
  // A command asks several times; a new one most often soon.
  recorded_until_.expires_after(kRecordedKept);
  recorded_until_.async_wait([this](const boost::system::error_code& error) {
    if (!error) recorded_.reset();
  });
  co_return known;
}

asio::awaitable<Result<server::Content>> Queries::Compute(const server::Request& request,
                                                          std::optional<pid_t> target) {
  // Looking everywhere takes longer than most queries; a target that is asked for by name is worth it.
  const bool is_known = !target || targets_.Knows(*target);
  if (!request.body.contains("directory"))
    co_await targets_.Refresh(is_known ? Targets::Look::kQuick : Targets::Look::kEverywhere);
  if (const Collectives wanted = CollectivesIn(request); wanted != Collectives::kNone)
    co_await targets_.ReadCollectives(wanted == Collectives::kOfAll ? std::nullopt : target);
  NoticeNewViews();
  cluster::Gathering gathering(hosts_.members(), hosts_.Options());
  std::vector<process::RankProcess> ranks;  // of this host, probed or not
  if (JobOf(request)) ranks = co_await Aside(io_, own_.threads, [] { return process::FindRanks(); });
  Result<query::QueryRequest> prepared = Prepare(request, target, ranks, gathering);
  if (!prepared.ok()) co_return prepared.error();
  std::vector<std::string> unread;
  if (request.body.contains("directory") && RecordedJob::IsIn(prepared->history->directory)) {
    const std::string directory = std::exchange(prepared->history, std::nullopt)->directory;
    const Result<std::shared_ptr<const RecordedJob>> job = co_await Recorded(directory);
    if (!job.ok()) co_return job.error();
    prepared->targets = (*job)->targets();
    for (table::Target& each : prepared->targets) each.selected = !target || each.pid == *target;
    prepared->provider = [job = *job](const table::Table& table, const table::Target* about,
                                      const std::vector<std::size_t>& columns) -> Result<table::Rows> {
      return job->Provide(table, about, columns);
    };
    unread = (*job)->problems();
    if (const incident::Contents* contents = (*job)->incident()) {
      prepared->recorded_ns = contents->recorded_ns();
      for (const auto& [name, rows] : contents->left_out()) {
        if (LowerCase(prepared->sql).find(name.substr(name.rfind('.') + 1)) != std::string::npos)
          unread.push_back(std::to_string(rows) + " older rows of " + name + " had no room in the file");
      }
    }
  }
  query::QueryAnswer answer = co_await Run(*prepared, PoolFor(prepared->format.format));
  for (std::string& problem : unread) answer.warnings.push_back(std::move(problem));
  if (answer.error) {
    const std::string hint = std::exchange(answer.error->hint, "");
    co_return Error{answer.error->code, answer.error->Text(prepared->sql), hint};
  }
  server::Content content{query::ContentType(prepared->format.format), std::move(answer.body), 200, {}};
  const cluster::Receipt receipt = gathering.receipt();
  if (receipt.gathered()) AddReceipt(receipt, prepared->format.format, content);
  if (prepared->format.format == query::Format::kFrame)
    PrepareForHost(request, hosts_.members().instance(), content);
  if (!ShowsLocals(request) && LowerCase(prepared->sql).find("locals") != std::string::npos)
    answer.warnings.emplace_back("the column locals is NULL: local variables take the right to eval");
  // Another host that asks says it itself, and a diagnosis says once what it could see.
  const bool is_for_people = !request.peer.empty() && prepared->format.format != query::Format::kFrame;
  if (is_for_people && !request.body.contains("directory")) {
    const Unseen::Report unseen =
        co_await unseen_.Explain({prepared->sql, target, JobOf(request), answer.rows});
    answer.warnings.insert(answer.warnings.end(), unseen.warnings.begin(), unseen.warnings.end());
    if (unseen.ranks_are_missing) content.headers.emplace_back(wire::kPartialHeader, "ranks");
  }
  for (const std::string& warning : answer.warnings) {
    content.headers.emplace_back(
        wire::kWarningHeader,
        server::Json(warning).dump(-1, ' ', true, server::Json::error_handler_t::replace));
  }
  co_return content;
}

asio::awaitable<Result<Queries::Collected>> Queries::Collect(const Collecting& collecting) {
  server::Request request;
  request.right = collecting.shows_locals ? server::Right::kOwn : server::Right::kProfile;
  request.body = server::Json{{"sql", collecting.sql}, {"format", "rows"}};
  if (!collecting.job.empty()) request.body["job"] = collecting.job;
  NoticeNewViews();
  cluster::Gathering gathering(hosts_.members(), hosts_.Options());
  Result<query::QueryRequest> prepared =
      Prepare(request, collecting.target,
              collecting.target ? std::vector<process::RankProcess>() : collecting.ranks, gathering);
  if (!prepared.ok()) co_return prepared.error();
  prepared->history.reset();
  prepared->limits.timeout_ms = collecting.timeout_ms;
  // Of our own workers: those for other hosts are for their questions.
  prepared->format.format = query::Format::kFrame;
  query::QueryAnswer answer = co_await Run(*prepared, own_);
  if (answer.error)
    co_return Error{answer.error->code, answer.error->Text(prepared->sql), answer.error->hint};
  co_return Collected{std::move(answer), gathering.receipt()};
}

std::shared_ptr<SharedAnswer> Queries::Follow(const server::Request& asked, std::optional<pid_t> target) {
  server::Request request = asked;
  if (!file_.empty()) {
    request.body["directory"] = file_;
    request.body.erase("job");
    request.right = server::Right::kOwn;  // to read the file that its owner serves
  }
  // All that an answer depends on.
  const std::string what = std::to_string(target.value_or(0)) + " " +
                           std::to_string(static_cast<int>(request.right)) + " " + request.accept + "\n" +
                           request.accept_encoding + "\n" + server::JsonText(request.body);
  return shared_.Get(what, [this, request, target] { return Compute(request, target); });
}

asio::awaitable<Result<server::Content>> Queries::Answer(const server::Request& request,
                                                         std::optional<pid_t> target) {
  co_return co_await AskOnce(Follow(request, target));
}

}  // namespace probing::daemon
