#include "cli/completion_values.h"

#include <map>
#include <set>

#include "base/file.h"
#include "base/visible.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/query_client.h"
#include "process/job_identity.h"
#include "process/status.h"
#include "wire/settings.h"

namespace probing::cli {
namespace {

constexpr std::size_t kDescription = 60;

std::string Line(const std::string& value, std::string_view description) {
  return value + "\t" + OneLine(description, kDescription) + "\n";
}

// Pids, and the scripts, ranks and jobs that `-t` takes as well. A script's name only where it is one
// process.
std::string Targets() {
  std::string text;
  std::map<std::string, int> scripts;
  std::map<std::string, int> jobs;
  std::set<std::int64_t> ranks;
  for (const pid_t pid : process::ListProcesses()) {
    if (!process::RunsPython(pid)) continue;
    const std::string command = process::ShortCommandLine(pid);
    text += Line(std::to_string(pid), command);
    const process::JobIdentity job = process::ReadJobIdentity(pid);
    if (job.role == process::JobRole::kRank && job.rank) {
      ranks.insert(*job.rank);
      ++jobs[job.JobName()];
    }
    std::string_view rest = command;
    while (!rest.empty()) {
      const std::size_t space = std::min(rest.find(' '), rest.size());
      const std::string_view word = rest.substr(0, space);
      if (word.ends_with(".py")) {
        ++scripts[std::string(word.substr(word.rfind('/') + 1))];
        break;
      }
      rest.remove_prefix(std::min(space + 1, rest.size()));
    }
  }
  for (const auto& [script, count] : scripts) {
    if (count == 1 && Visible(script) == script) text += Line(script, "the process that runs it");
  }
  const Result<std::vector<std::string>> files = ListDirectory(".");
  for (const std::string& name : files.ok() ? *files : std::vector<std::string>()) {
    if (name.ends_with(".incident") && Visible(name) == name) text += Line(name, "an incident");
  }
  for (const std::int64_t rank : ranks) text += Line("rank:" + std::to_string(rank), "a rank of the job");
  for (const auto& [name, count] : jobs) {
    if (Visible(name) == name) text += Line("job:" + name, std::to_string(count) + " ranks here");
  }
  return text;
}

std::string SettingNames() {
  std::string text;
  for (const wire::Setting& setting : wire::AllSettings())
    text += Line(std::string(setting.name), setting.description);
  return text;
}

Result<std::string> Tables() {
  ASSIGN_OR_RETURN(
      const std::string answer,
      Query({.sql = "SELECT table_name, doc FROM probing.tables ORDER BY table_name", .format = "json"}));
  const Json rows = Json::parse(answer, nullptr, false);
  std::string text;
  if (!rows.is_array()) return text;
  for (const Json& row : rows) text += Line(row.value("table_name", ""), row.value("doc", ""));
  return text;
}

}  // namespace

Result<std::string> CompletionValues(std::string_view kind) {
  if (kind == "targets") return Targets();
  if (kind == "settings") return SettingNames();
  if (kind == "tables") return Tables();
  return Error{Code::kUsage, "there are no values of the kind " + std::string(kind),
               "targets, settings or tables"};
}

}  // namespace probing::cli
