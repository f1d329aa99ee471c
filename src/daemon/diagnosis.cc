#include "daemon/diagnosis.h"

#include <algorithm>

#include "base/text.h"
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
                 {"evidence", text("evidence", rule.about.c_str())},
                 {"next", text("next", "")},
                 {"rule", rule.name}};
    const Json& pids = finding["pids"];
    if (asked.target && std::ranges::find(pids, Json(*asked.target)) == pids.end()) continue;
    findings.push_back(std::move(finding));
  }
}

}  // namespace

asio::awaitable<Result<Json>> Diagnose(Daemon& daemon, const Request& request) {
  const Result<Asked> asked = ParseAsked(daemon, request);
  if (!asked.ok()) co_return asked.error();
  std::vector<std::string> problems;
  const std::string views = wire::ConfigDirectory();
  const std::vector<Rule> rules = LoadRules(views.empty() ? "" : views + "/diagnose", problems);
  std::vector<Json> findings;
  std::size_t count = 0;
  for (const Rule& rule : rules) {
    if (!asked->class_name.empty() && rule.class_name != asked->class_name) continue;
    ++count;
    const Result<Json> answer = co_await QueryRows(daemon, RuleSql(rule, asked->patience_s));
    if (answer.ok())
      AddFindings(rule, *answer, *asked, findings);
    else
      problems.push_back("the rule " + rule.name + " failed: " + answer.error().message);
  }
  if (count == 0)
    co_return Error{Code::kUsage, "no rule has the class " + asked->class_name, "leave it out to ask all"};
  std::ranges::stable_sort(findings, [](const Json& a, const Json& b) {
    return (a["severity"] == "error") > (b["severity"] == "error");
  });
  co_return Json{{"findings", findings}, {"rules", count}, {"problems", problems}};
}

std::string DiagnosisText(const Json& diagnosis) {
  std::string text;
  for (const Json& finding : diagnosis["findings"]) {
    text += finding["class"].get<std::string>() + wire::WhoText(finding["ranks"], finding["pids"]) + ": " +
            finding["evidence"].get<std::string>() + "\n";
    const std::string next = finding["next"].get<std::string>();
    if (!next.empty()) text += "  next: " + next + "\n";
  }
  if (text.empty()) text = "nothing found (" + diagnosis["rules"].dump() + " rules)\n";
  for (const Json& problem : diagnosis["problems"]) text += "problem: " + problem.get<std::string>() + "\n";
  return text;
}

void AddDiagnosis(server::Router& router, Daemon& daemon) {
  router.Add("GET", wire::kDiagnoseRoute, server::Right::kRead,
             [&](const Request& request) { return Diagnose(daemon, request); });
}

}  // namespace probing::daemon
