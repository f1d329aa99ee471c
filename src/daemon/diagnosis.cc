#include "daemon/diagnosis.h"

#include <algorithm>

#include "base/text.h"
#include "daemon/api_store.h"
#include "daemon/host_name.h"
#include "daemon/recorded_job.h"
#include "daemon/rules.h"
#include "wire/config_directory.h"
#include "wire/diagnosis.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using server::Request;

namespace {

constexpr double kMostPatience = 3600;

struct Asked {
  std::optional<pid_t> target;
  std::string class_name;  // "": all
  double patience_s = 0;
  std::optional<wire::StoreUrl> store;  // is asked, instead of this host
  std::string directory;                // or one with recordings is
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
  asked.class_name = Field(request, "class");
  asked.patience_s = daemon.settings.GetNumber("probing.diagnose.patience");
  if (const std::string text = Field(request, "patience"); !text.empty()) {
    if (!ParseNumber(text, asked.patience_s) || !(asked.patience_s > 0 && asked.patience_s <= kMostPatience))
      return Error{Code::kUsage, "patience is a number of seconds up to 3600", ""};
  }
  if (const std::string store = Field(request, "store"); !store.empty()) {
    ASSIGN_OR_RETURN(asked.store, StoreOf(daemon, request, store == "true" ? Json(true) : Json(store)));
  }
  asked.directory = Field(request, "directory");
  if (!asked.directory.empty()) {
    if (request.right != server::Right::kOwn)
      return Error{Code::kPermission, "directories can be asked for over the unix socket only",
                   "run `probing -t DIR diagnose` on the machine that has it"};
    if (!asked.directory.starts_with('/') || !RecordedJob::IsIn(asked.directory))
      return Error{Code::kUsage, asked.directory + " has no recordings of torch's Flight Recorder",
                   "their files are called _dump_RANK or nccl_trace_rank_RANK"};
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
  const Json& ranks = finding["ranks"];
  finding["next"] = "probing -t " + directory + " query \"SELECT * FROM python.collective_starts" +
                    (ranks.empty() ? "" : " WHERE rank = " + ranks[0].dump()) + " ORDER BY timestamp\"";
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
    Json finding{{"class", rule.class_name},
                 {"severity", text("severity", "warning")},
                 {"ranks", Numbers(fields.value("ranks", Json()))},
                 {"pids", Numbers(fields.value("pids", Json()))},
                 {"host", text("host", "")},
                 {"evidence", text("evidence", rule.about.c_str())},
                 {"next", text("next", "")},
                 {"rule", rule.name}};
    if (!asked.directory.empty()) PointIntoRecording(asked.directory, finding);
    const Json& pids = finding["pids"];
    if (asked.target && (std::ranges::find(pids, Json(*asked.target)) == pids.end() || IsElsewhere(finding)))
      continue;
    findings.push_back(std::move(finding));
  }
}

}  // namespace

asio::awaitable<Result<Json>> Diagnose(Daemon& daemon, const Request& request) {
  const Result<Asked> asked = ParseAsked(daemon, request);
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
    for (const std::string& problem : recorded->problems()) problems.push_back(problem);
  }
  std::vector<Json> findings;
  Json receipt;
  std::size_t count = 0;
  for (const Rule& rule : rules) {
    if (!asked->class_name.empty() && rule.class_name != asked->class_name) continue;
    ++count;
    std::string sql = RuleSql(rule, asked->patience_s);
    const Result<Json> answer = co_await RowsOf(daemon, *asked, std::move(sql));
    if (answer.ok()) {
      AddFindings(rule, *answer, *asked, findings);
      AddReceipt(*answer, receipt);
    } else {
      problems.push_back("the rule " + rule.name + " failed: " + answer.error().message);
    }
  }
  if (count == 0)
    co_return Error{Code::kUsage, "no rule has the class " + asked->class_name, "leave it out to ask all"};
  std::ranges::stable_sort(findings, [](const Json& a, const Json& b) {
    return (a["severity"] == "error") > (b["severity"] == "error");
  });
  if (!asked->store && asked->directory.empty()) co_await PointElsewhere(daemon, findings);
  Json diagnosis{{"findings", findings}, {"rules", count}, {"problems", problems}};
  if (!receipt.is_null()) diagnosis["receipt"] = std::move(receipt);
  co_return diagnosis;
}

std::string DiagnosisText(const Json& diagnosis) {
  std::string text;
  for (const Json& finding : diagnosis["findings"]) {
    text += finding["class"].get<std::string>() + wire::WhoText(finding["ranks"], finding["pids"]) +
            (finding.contains("node") ? " on " + finding["host"].get<std::string>() : "") + ": " +
            finding["evidence"].get<std::string>() + "\n";
    const std::string next = finding["next"].get<std::string>();
    if (!next.empty()) text += "  next: " + next + "\n";
  }
  if (text.empty()) text = "nothing found (" + diagnosis["rules"].dump() + " rules)\n";
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
