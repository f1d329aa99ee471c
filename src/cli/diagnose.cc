// probing diagnose: what is wrong, which rank, how that is known, and what to do next.
#include <set>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "cli/recording.h"
#include "wire/diagnosis.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kWatchNs = 5'000'000'000;

Result<Json> Ask(const Invocation& invocation) {
  std::vector<std::pair<std::string, std::string>> fields;
  if (invocation.target) fields.emplace_back("target", std::to_string(*invocation.target));
  if (invocation.job && !invocation.job->empty()) fields.emplace_back("job", *invocation.job);
  if (invocation.Has("--all")) fields.emplace_back("all", "true");
  if (invocation.Has("--class")) fields.emplace_back("class", invocation.Get("--class"));
  if (invocation.Has("--patience")) {
    RETURN_IF_ERROR(invocation.GetNumber("--patience", 1));
    fields.emplace_back("patience", invocation.Get("--patience"));
  }
  if (!invocation.store.empty()) fields.emplace_back("store", invocation.store);
  if (!invocation.directory.empty()) fields.emplace_back("directory", invocation.directory);
  const std::string query = UrlQuery(fields);
  // Every rule is a query with a time limit of its own; many processes take many of them long.
  return GetFromDaemon(std::string(wire::kDiagnoseRoute) + (query.empty() ? "" : "?" + query),
                       Patience::kEndless);
}

// A host is named when it is another one than the asked.
std::string Who(const Json& finding) {
  const std::vector<std::int64_t> nobody;
  return wire::WhoText(finding.value("ranks", nobody), finding.value("pids", nobody)) +
         (finding.contains("node") ? " on " + finding.value("host", "") : "");
}

std::string Describe(const Json& finding) {
  const bool is_error = finding.value("severity", "") == "error";
  std::string text =
      Painted(finding.value("class", "") + Who(finding), is_error ? Colour::kRed : Colour::kYellow) + "\n  " +
      finding.value("evidence", "") + "\n";
  const std::string next = finding.value("next", "");
  return next.empty() ? text : text + "  next: " + next + "\n";
}

// What could be seen, and how to see more. True when ranks are missing.
bool ReportSeen(const Json& diagnosis, bool print_jobs) {
  using Ranks = std::vector<std::int64_t>;
  bool is_partial = false;
  for (const Json& job : diagnosis.value("seen", Json::array())) {
    const Ranks not_probed = job.value("not_probed", Ranks());
    const Ranks unknown = job.value("unknown", Ranks());
    const std::string name = job.value("job", "");
    if (print_jobs)
      Print(wire::SeenText(name, job.value("ranks", std::int64_t{0}), job.value("probed", Ranks()),
                           not_probed, unknown) +
            "; collectives: " + job.value("collectives", "") + "\n");
    is_partial = is_partial || !not_probed.empty() || !unknown.empty();
    if (!not_probed.empty())
      PrintAside("probing: some ranks have no probe and were only seen from outside\n  hint: `" +
                 job.value("next", "") + "` probes them\n");
    if (!unknown.empty())
      PrintAside(
          "probing: some ranks of job " + name +
          " were not seen\n  hint: they have ended, or are on hosts that are not told of each other: see "
          "`probing cluster --help`\n");
  }
  return is_partial;
}

void ReportProblems(const Json& diagnosis) {
  for (const Json& problem : diagnosis.value("problems", Json::array()))
    PrintAside("probing: " + problem.get<std::string>() + "\n");
}

// The same thing about the same processes; its evidence, which has times in it, may change.
std::string KeyOf(const Json& finding) { return finding.value("rule", "") + Who(finding); }

// Says what is new and what is over, for as long as somebody looks.
Result<int> Watch(const Invocation& invocation) {
  CatchInterrupts();
  std::set<std::string> known;
  Json missing = Json::array();
  while (!Interrupted()) {
    ASSIGN_OR_RETURN(const Json diagnosis, Ask(invocation));
    const Json receipt = diagnosis.value("receipt", Json::object());
    if (Json failed = receipt.value("failed", Json::array()); failed != missing) {
      PrintReceipt(receipt);
      missing = std::move(failed);
    }
    if (known.empty()) ReportProblems(diagnosis);
    std::set<std::string> present;
    for (const Json& finding : diagnosis.value("findings", Json::array())) {
      present.insert(KeyOf(finding));
      if (known.contains(KeyOf(finding))) continue;
      Print(invocation.Has("--json") ? EncodeJson(finding) + "\n"
                                     : FormatTime(WallNs()) + "  " + Describe(finding));
    }
    for (const std::string& key : known) {
      if (!present.contains(key) && !invocation.Has("--json"))
        Print(FormatTime(WallNs()) + "  over: " + key + "\n");
    }
    known = std::move(present);
    const Deadline next = Deadline::AfterNs(kWatchNs);
    while (!next.passed() && !Interrupted()) SleepUs(20'000);
  }
  return 0;
}

Result<int> Run(const Invocation& invocation) {
  if (invocation.Has("--watch")) return Watch(invocation);
  ASSIGN_OR_RETURN(const Json diagnosis, Ask(invocation));
  bool is_partial = diagnosis.contains("receipt") && PrintReceipt(diagnosis["receipt"]);
  // A question about one process has its answer.
  if (ReportSeen(diagnosis, !invocation.Has("--json")) && !invocation.target) is_partial = true;
  const int code = is_partial ? static_cast<int>(Code::kPartial) : 0;
  if (invocation.Has("--json")) {
    Print(FormatJson(diagnosis));
    return code;
  }
  ReportProblems(diagnosis);
  const Json findings = diagnosis.value("findings", Json::array());
  for (const Json& finding : findings) Print(Describe(finding));
  if (findings.empty()) Print("nothing found (" + diagnosis.value("rules", Json(0)).dump() + " rules)\n");
  return code;
}

}  // namespace

Command DiagnoseCommand() {
  return {
      .name = "diagnose",
      .summary = "Name what is wrong with a job: which rank, which line, what to do next",
      .example = "probing diagnose --watch",
      .target = TargetUse::kOptional,
      .target_may_have_ended = true,
      .target_may_be_directory = true,
      .target_may_be_store = true,
      .target_may_be_job = true,
      .all_is_fine = true,
      .options = {{"--class", "NAME", "only findings of this class, as in straggler"},
                  {"--patience", "SECONDS", "how long something has to last (probing.diagnose.patience)"},
                  {"--all", "", "also deaths that were requested or are older than probing.diagnose.window"},
                  {"--watch", "", "go on looking; say what is new and what is over"},
                  {"--json", "", "print JSON"}},
      .run = Run};
}

}  // namespace probing::cli
