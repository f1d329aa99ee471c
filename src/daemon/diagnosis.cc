#include "daemon/diagnosis.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <set>

#include "base/clock.h"
#include "base/text.h"
#include "daemon/api_store.h"
#include "daemon/coverage.h"
#include "daemon/findings.h"
#include "daemon/host_name.h"
#include "daemon/recorded_job.h"
#include "daemon/rules.h"
#include "daemon/stuck_ranks.h"
#include "wire/config_directory.h"
#include "wire/diagnosis.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using server::Request;

namespace {

constexpr double kMostPatience = 3600;
// Ranks are looked at for so long from outside, or {patience} if less: nothing else is known of those that
// have no probe.
constexpr double kOutsideSeconds = 5;
constexpr double kMostOutsideSeconds = 15;
constexpr int kLooks = 6;
constexpr const char* kOutsideRule = "collective_hang_outside";
constexpr std::int64_t kRecordedMs = 2000;  // until a hang that has lasted long enough is in the tables

struct Asked {
  std::optional<pid_t> target;
  std::string job;         // "": all
  std::string class_name;  // "": all
  double patience_s = 0;
  bool all_deaths = false;
  std::optional<wire::StoreUrl> store;  // is asked, instead of this host
  std::string directory;                // or one with recordings is
  bool is_incident = false;             // or rather an incident file
};

std::string Field(const Request& request, const std::string& name) {
  if (const auto query = request.query.find(name); query != request.query.end()) return query->second;
  const auto field = request.body.find(name);
  if (field == request.body.end() || field->is_null()) return "";
  return field->is_string() ? field->get<std::string>() : field->dump();
}

Result<Asked> ParseAsked(const Daemon& daemon, const Request& request) {
  Asked asked;
  ASSIGN_OR_RETURN(asked.target, TargetOf(request));
  asked.job = Field(request, "job");
  asked.class_name = Field(request, "class");
  asked.patience_s = daemon.settings.GetNumber("probing.diagnose.patience");
  if (const std::string text = Field(request, "patience"); !text.empty()) {
    if (!ParseNumber(text, asked.patience_s) || !(asked.patience_s > 0 && asked.patience_s <= kMostPatience))
      return Error{Code::kUsage, "patience is a number of seconds up to 3600", ""};
  }
  // A question for this class alone is one for all of them.
  asked.all_deaths = Field(request, "all") == "true" || asked.class_name == "first_death";
  if (const std::string store = Field(request, "store"); !store.empty()) {
    ASSIGN_OR_RETURN(asked.store, StoreOf(daemon, request, store == "true" ? Json(true) : Json(store)));
  }
  asked.directory = daemon.file.empty() ? Field(request, "directory") : daemon.file;
  if (!asked.directory.empty() && daemon.file.empty()) {
    if (request.right != server::Right::kOwn)
      return Error{Code::kPermission, "directories can be asked for over the unix socket only",
                   "run `probing -t DIR diagnose` on the machine that has it"};
    if (!asked.directory.starts_with('/') || !RecordedJob::IsIn(asked.directory))
      return Error{
          Code::kUsage,
          asked.directory + " has no recordings of torch's Flight Recorder and no traces, and is no incident",
          "their files are called _dump_RANK or nccl_trace_rank_RANK, and *.pt.trace.json[.gz]"};
  }
  return asked;
}

// A list stays one, a number becomes one.
Json Numbers(const Json& value) {
  Json list = Json::array();
  if (value.is_number()) list.push_back(value);
  if (value.is_array()) {
    for (const Json& each : value) {
      if (each.is_number()) list.push_back(each);
    }
  }
  return list;
}

// Rows of a rule: of a store, of recordings, or of this host.
asio::awaitable<Result<Json>> RowsOf(Daemon& daemon, const Asked& asked, std::string sql) {
  if (asked.store) co_return co_await StoreRows(daemon, *asked.store, std::move(sql));
  Request request = RowsRequest(std::move(sql));
  if (!asked.directory.empty()) {
    request.body["directory"] = asked.directory;
    request.right = server::Right::kOwn;  // as ParseAsked() has seen
  }
  co_return co_await QueryRows(daemon, std::move(request));
}

// A rank of a recording has no process that could be looked at.
void PointIntoRecording(const std::string& directory, Json& finding) {
  finding["pids"] = Json::array();
  if (finding["class"] == "gpu_idle" || finding["class"] == "exposed_communication") {
    finding["next"] = "probing -t " + directory + " profile";
    return;
  }
  const Json& ranks = finding["ranks"];
  finding["next"] = "probing -t " + directory + " query \"SELECT * FROM python.collective_starts" +
                    (ranks.empty() ? "" : " WHERE rank = " + ranks[0].dump()) + " ORDER BY timestamp\"";
}

// The processes of an incident are gone, their stacks are in the file.
void PointIntoIncident(const std::string& path, Json& finding) {
  const std::string next = finding["next"].get<std::string>();
  const std::size_t query = next.find(" query ");
  finding["next"] = "probing -t " + path +
                    (next.starts_with("probing ") && query != std::string::npos ? next.substr(query)
                                                                                : std::string(" backtrace"));
}

Json JobIn(const RecordedJob& recorded, const Json& finding) {
  const Json& pids = finding["pids"];
  for (const table::Target& target : recorded.targets()) {
    const bool is_there = finding["host"] == target.host || finding["host"] == "";
    if (is_there && !pids.empty() && pids[0] == target.pid)
      return target.job.empty() ? Json() : Json(target.job);
  }
  return {};
}

bool HasFinding(const std::vector<Json>& findings, const char* class_name, const std::string& job) {
  return std::ranges::any_of(
      findings, [&](const Json& each) { return each["class"] == class_name && each["job"] == job; });
}

// Of a file, which may say anything.
bool IsFinding(const Json& finding) {
  if (!finding.is_object()) return false;
  for (const char* name : {"class", "severity", "host", "evidence", "next", "rule"}) {
    if (!finding.value(name, Json()).is_string()) return false;
  }
  const auto is_list = [&](const char* name) {
    const Json list = finding.value(name, Json());
    return list.is_array() &&
           std::ranges::all_of(list, [](const Json& each) { return each.is_number_integer(); });
  };
  return is_list("ranks") && is_list("pids") && finding.contains("job") && finding.contains("since_ns");
}

// What was seen of processes from outside cannot be asked of rows: it is as it was then.
void AddSeenThen(const incident::Contents& contents, const Asked& asked, std::vector<Json>& findings,
                 Json& seen) {
  const Json then = contents.about().value("diagnosis", Json::object());
  if (!then.is_object()) return;
  for (Json job : then.value("seen", Json::array())) {
    if (!job.is_object() || (!asked.job.empty() && job.value("job", Json()) != asked.job)) continue;
    job["next"] = "";  // nobody can be probed any more
    seen.push_back(std::move(job));
  }
  for (Json finding : then.value("findings", Json::array())) {
    if (!IsFinding(finding) || finding["rule"] != kOutsideRule) continue;
    const std::string class_name = finding["class"].get<std::string>();
    if (!asked.class_name.empty() && class_name != asked.class_name) continue;
    if (finding["job"].is_string() &&
        HasFinding(findings, class_name.c_str(), finding["job"].get<std::string>()))
      continue;
    PointIntoIncident(asked.directory, finding);
    finding.erase("also");
    findings.push_back(std::move(finding));
  }
}

// About a process of another host: its number means somebody else here.
bool IsElsewhere(const Json& finding) {
  const std::string host = finding["host"].get<std::string>();
  return !host.empty() && host != HostName();
}

// A command for that host becomes one that asks it from here.
std::string FromHere(const std::string& next, const Json& pids, const std::string& host,
                     const std::string& node) {
  const std::string pid = pids.empty() ? "" : pids[0].dump();
  const std::string about = "probing -t " + pid + " ";
  if (!pid.empty() && next.starts_with(about))
    return "probing -t " + node + "/" + pid + " " + next.substr(about.size());
  return next.starts_with("kill ") ? "ssh " + host + " " + next : next;
}

asio::awaitable<void> PointElsewhere(Daemon& daemon, std::vector<Json>& findings) {
  if (std::ranges::none_of(findings, IsElsewhere)) co_return;
  const Result<Json> nodes =
      co_await QueryRows(daemon, "SELECT host, node FROM cluster.nodes WHERE state = 'up'");
  for (const Json& row : nodes.ok() ? (*nodes)["rows"] : Json::array()) {
    for (Json& finding : findings) {
      if (!IsElsewhere(finding) || finding["host"] != row[0]) continue;
      finding["node"] = row[1];
      finding["next"] = FromHere(finding["next"].get<std::string>(), finding["pids"],
                                 finding["host"].get<std::string>(), row[1].get<std::string>());
    }
  }
}

// One receipt of many: who has failed once is missing.
void AddReceipt(const Json& answer, Json& sum) {
  const auto found = answer.find("receipt");
  if (found == answer.end()) return;
  if (sum.is_null()) sum = Json{{"expected", 0}, {"failed", Json::array()}};
  sum["expected"] = std::max(sum["expected"].get<std::int64_t>(), (*found)["expected"].get<std::int64_t>());
  for (const Json& missing : (*found)["failed"]) {
    const auto is_same = [&](const Json& known) { return known["node"] == missing["node"]; };
    if (std::ranges::none_of(sum["failed"], is_same)) sum["failed"].push_back(missing);
  }
  if (found->contains("clocks")) sum["clocks"] = (*found)["clocks"];
  sum["answered"] = sum["expected"].get<std::int64_t>() - static_cast<std::int64_t>(sum["failed"].size());
}

void AddFindings(const Rule& rule, const Json& answer, const Asked& asked, std::vector<Json>& findings) {
  for (const Json& row : answer["rows"]) {
    Json fields = Json::object();
    for (std::size_t i = 0; i < row.size(); ++i)
      fields[answer["columns"][i]["name"].get<std::string>()] = row[i];
    const auto text = [&](const char* name, const char* otherwise) {
      const Json value = fields.value(name, Json());
      return value.is_string() ? value.get<std::string>() : std::string(otherwise);
    };
    const std::string class_name = text("class", rule.class_name.c_str());
    if (!rule.MayFind(class_name) || (!asked.class_name.empty() && class_name != asked.class_name)) continue;
    Json finding{{"class", class_name},
                 {"severity", text("severity", "warning")},
                 {"ranks", Numbers(fields.value("ranks", Json()))},
                 {"pids", Numbers(fields.value("pids", Json()))},
                 {"host", text("host", "")},
                 {"evidence", text("evidence", rule.about.c_str())},
                 {"next", text("next", "")},
                 {"rule", rule.name},
                 {"since_ns", fields.value("since_ns", Json())},
                 {"job", Json()}};
    if (asked.is_incident)
      PointIntoIncident(asked.directory, finding);
    else if (!asked.directory.empty())
      PointIntoRecording(asked.directory, finding);
    const Json& pids = finding["pids"];
    const bool is_elsewhere = asked.directory.empty() && IsElsewhere(finding);
    if (asked.target && (std::ranges::find(pids, Json(*asked.target)) == pids.end() || is_elsewhere))
      continue;
    findings.push_back(std::move(finding));
  }
}

asio::awaitable<Result<Json>> AskRule(Daemon& daemon, const Asked& asked, const Rule& rule) {
  std::string sql = RuleSql(rule, {.patience_s = asked.patience_s,
                                   .window_s = daemon.settings.GetNumber("probing.diagnose.window"),
                                   .all_deaths = asked.all_deaths});
  co_return co_await RowsOf(daemon, asked, std::move(sql));
}

void AddJobs(const Coverage& coverage, std::vector<Json>& findings) {
  for (Json& finding : findings) {
    if (finding["job"].is_string()) continue;
    const std::string job = coverage.JobOf(finding["host"].get<std::string>(), finding["pids"]);
    if (!job.empty()) finding["job"] = job;
  }
}

// Jobs of which the rules have said what holds them up.
std::set<std::string> ExplainedJobs(const std::vector<Json>& findings) {
  std::set<std::string> jobs;
  for (const Json& finding : findings) {
    if (finding["job"].is_string() &&
        (finding["class"] == "collective_hang" || finding["class"] == "collective_mismatch" ||
         finding["class"] == "first_death"))
      jobs.insert(finding["job"].get<std::string>());
  }
  return jobs;
}

// Looks at the ranks again and again for as long as some job seems to hang that the rules have not explained.
asio::awaitable<std::vector<StuckRanks>> WatchRanks(Daemon& daemon, const Asked& asked,
                                                    std::vector<process::RankProcess> ranks, RankLooks first,
                                                    std::int64_t first_ns, std::set<std::string> explained) {
  const bool all_probed = std::ranges::all_of(
      ranks, [&](const process::RankProcess& rank) { return daemon.targets.Knows(rank.pid); });
  std::erase_if(ranks, [&](const auto& rank) { return explained.contains(rank.identity.job); });
  std::erase_if(first, [&](const auto& look) { return explained.contains(look.job); });
  std::vector<RankLooks> looks{std::move(first)};
  const double wanted_s = std::min(asked.patience_s, all_probed ? kMostOutsideSeconds : kOutsideSeconds);
  std::vector<StuckRanks> stuck = FindStuckRanks(looks, 0);
  double seconds = 0;
  while (!stuck.empty() && (seconds < wanted_s || looks.size() < kLooks)) {
    asio::steady_timer timer(daemon.io, std::chrono::milliseconds(static_cast<int>(wanted_s * 1e3 / kLooks)));
    co_await timer.async_wait(asio::use_awaitable);
    looks.push_back(co_await Aside(daemon, [&] { return LookAtRanks(ranks); }));
    seconds = static_cast<double>(MonotonicNs() - first_ns) / 1e9;
    stuck = FindStuckRanks(looks, seconds);
  }
  co_return stuck;
}

void AddStuckRanks(const Asked& asked, const std::vector<StuckRanks>& stuck, std::vector<Json>& findings) {
  for (const StuckRanks& each : stuck) {
    if (HasFinding(findings, "collective_hang", each.job)) continue;
    if (asked.target && std::ranges::find(each.pids, *asked.target) == each.pids.end()) continue;
    findings.push_back({{"class", "collective_hang"},
                        {"severity", "error"},
                        {"ranks", each.ranks},
                        {"pids", each.pids},
                        {"host", HostName()},
                        {"evidence", each.evidence},
                        {"next", "probing -t " + std::to_string(each.pids[0]) + " backtrace --native"},
                        {"rule", kOutsideRule},
                        {"since_ns", Json()},
                        {"job", each.job}});
  }
}

}  // namespace

asio::awaitable<Result<Json>> Diagnose(Daemon& daemon, const Request& request) {
  Result<Asked> asked = ParseAsked(daemon, request);
  if (!asked.ok()) co_return asked.error();
  std::vector<std::string> problems;
  const std::string views = wire::ConfigDirectory();
  const std::string directory = views.empty() ? "" : views + "/diagnose";
  const std::vector<Rule> rules =
      asked->store ? LoadStoreRules(directory, problems) : LoadRules(directory, problems);
  std::shared_ptr<const RecordedJob> recorded;  // held, so that they are read once for all rules
  if (!asked->directory.empty()) {
    Result<std::shared_ptr<const RecordedJob>> job = co_await daemon.queries.Recorded(asked->directory);
    if (!job.ok()) co_return job.error();
    recorded = std::move(*job);
    asked->is_incident = recorded->incident() != nullptr;
    for (const std::string& problem : recorded->problems()) problems.push_back(problem);
  }
  const bool is_live = !asked->store && asked->directory.empty();
  std::vector<process::RankProcess> ranks;
  RankLooks first_look;
  const std::int64_t first_ns = MonotonicNs();
  if (is_live) {
    ranks = co_await Aside(daemon, [] { return process::FindRanks(); });
    first_look = co_await Aside(daemon, [&] { return LookAtRanks(ranks); });
  }
  std::vector<Json> findings;
  Json receipt;
  std::size_t count = 0;
  for (const Rule& rule : rules) {
    if (!asked->class_name.empty() && !rule.MayFind(asked->class_name)) continue;
    ++count;
    const Result<Json> answer = co_await AskRule(daemon, *asked, rule);
    if (answer.ok()) {
      AddFindings(rule, *answer, *asked, findings);
      AddReceipt(*answer, receipt);
    } else {
      problems.push_back("the rule " + rule.name + " failed: " + answer.error().message);
    }
  }
  if (count == 0)
    co_return Error{Code::kUsage, "no rule has the class " + asked->class_name, "leave it out to ask all"};
  Coverage coverage;
  if (is_live) {
    coverage = co_await SeeCoverage(daemon, ranks, asked->target);
    AddJobs(coverage, findings);
    if (asked->class_name.empty() || asked->class_name == "collective_hang") {
      const std::vector<StuckRanks> stuck = co_await WatchRanks(
          daemon, *asked, std::move(ranks), std::move(first_look), first_ns, ExplainedJobs(findings));
      // What torch has recorded meanwhile tells more.
      const auto rule = std::ranges::find(rules, "collective_hang", &Rule::name);
      const Deadline patience =
          Deadline::AfterMs(static_cast<std::int64_t>(1000 * asked->patience_s) + kRecordedMs);
      while (!stuck.empty() && rule != rules.end()) {
        const Result<Json> answer = co_await AskRule(daemon, *asked, *rule);
        if (answer.ok()) AddFindings(*rule, *answer, *asked, findings);
        AddJobs(coverage, findings);
        if (!ExplainedJobs(findings).empty() || !coverage.AllProbed() || patience.passed()) break;
        asio::steady_timer timer(daemon.io, std::chrono::milliseconds(500));
        co_await timer.async_wait(asio::use_awaitable);
      }
      AddStuckRanks(*asked, stuck, findings);
    }
  } else if (!asked->directory.empty()) {
    for (Json& finding : findings)  // of recordings: one job
      finding["job"] = asked->is_incident ? JobIn(*recorded, finding) : Json(asked->directory);
    if (asked->is_incident) AddSeenThen(*recorded->incident(), *asked, findings, coverage.jobs);
  }
  if (!asked->job.empty()) {
    std::erase_if(findings, [&](const Json& finding) { return finding["job"] != asked->job; });
    Json jobs = Json::array();
    for (Json& job : coverage.jobs) {
      if (job["job"] == asked->job) jobs.push_back(std::move(job));
    }
    coverage.jobs = std::move(jobs);
  }
  findings = FoldFindings(std::move(findings));
  if (is_live) co_await PointElsewhere(daemon, findings);
  Json diagnosis{{"findings", findings}, {"rules", count}, {"problems", problems}};
  diagnosis["seen"] = std::move(coverage.jobs);
  if (!receipt.is_null()) diagnosis["receipt"] = std::move(receipt);
  co_return diagnosis;
}

std::string DiagnosisText(const Json& diagnosis) {
  std::string text;
  for (const Json& job : diagnosis["seen"]) {
    text += wire::SeenText(job["job"].get<std::string>(), job["ranks"].get<std::int64_t>(), job["probed"],
                           job["not_probed"], job["unknown"]) +
            "; collectives: " + job["collectives"].get<std::string>() + "\n";
  }
  for (const Json& finding : diagnosis["findings"]) {
    text += finding["class"].get<std::string>() + wire::WhoText(finding["ranks"], finding["pids"]) +
            (finding.contains("node") ? " on " + finding["host"].get<std::string>() : "") + ": " +
            finding["evidence"].get<std::string>() + "\n";
    const std::string next = finding["next"].get<std::string>();
    if (!next.empty()) text += "  next: " + next + "\n";
  }
  if (diagnosis["findings"].empty()) text += "nothing found (" + diagnosis["rules"].dump() + " rules)\n";
  for (const Json& problem : diagnosis["problems"]) text += "problem: " + problem.get<std::string>() + "\n";
  for (const Json& missing : diagnosis.contains("receipt") ? diagnosis["receipt"]["failed"] : Json::array())
    text += "not asked: " + missing["node"].get<std::string>() + ": " + missing["reason"].get<std::string>() +
            "\n";
  return text;
}

void AddDiagnosis(server::Router& router, Daemon& daemon) {
  router.Add("GET", wire::kDiagnoseRoute, server::Right::kRead,
             [&](const Request& request) { return Diagnose(daemon, request); });
}

}  // namespace probing::daemon
