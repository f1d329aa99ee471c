#include "daemon/unseen.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <map>
#include <set>

#include "base/text.h"
#include "daemon/aside.h"
#include "process/maps.h"
#include "process/status.h"
#include "table/registry.h"

namespace probing::daemon {
namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto kRanksKept = 5s;
constexpr std::size_t kMostLookedAt = 16;  // processes, for one sentence
constexpr auto kAskForTracing = 500ms;
constexpr std::string_view kTracing = "probing.torch.profiling";

// The first table in the SQL that only a probe fills; "" for none.
std::string TableOfProbe(const std::string& sql) {
  const std::string text = LowerCase(sql);
  std::string found;
  for (const table::Table* each : table::AllTables()) {
    if (each->origin != table::Origin::kProbe || text.find(each->name) == std::string::npos) continue;
    if (each->name.size() > found.size()) found = each->name;  // python.torch_steps, not python.torch
  }
  return found;
}

// Whether only a program with PyTorch, that is traced, has rows of it.
bool IsOfTracing(std::string_view table) {
  return table == "python.torch_steps" || table == "python.torch_trace" || table == "profiling_data";
}
// What a command has to record first; "" for others.
std::string_view CommandBefore(std::string_view table) {
  if (table == "gpu.memory_blocks") return "memory --gpu";
  for (const std::string_view of_profile :
       {"python.torch_ops", "python.op_costs", "python.critical_path", "gpu.kernels", "gpu.kernel_costs",
        "gpu.launches", "gpu.utilization"}) {
    if (table == of_profile) return "profile --steps 3";
  }
  return "";
}
bool IsOfTorch(std::string_view table) {
  return IsOfTracing(table) || !CommandBefore(table).empty() || table == "python.compiles" ||
         table.starts_with("python.collective") || table == "python.process_groups" ||
         table == "python.modules" || table == "python.tensors" || table == "python.flight_recorder";
}

enum class Framework : std::uint8_t { kNone, kTorch, kJax };

Framework FrameworkOf(pid_t pid) {
  const Result<process::Maps> maps = process::Maps::Read(pid);
  Framework found = Framework::kNone;
  if (!maps.ok()) return Framework::kTorch;  // nothing is known against it
  for (const process::Mapping& mapping : maps->all()) {
    if (mapping.path.find("libtorch") != std::string::npos) return Framework::kTorch;
    if (mapping.path.find("/jaxlib/") != std::string::npos) found = Framework::kJax;
  }
  return found;
}

std::string Inject(const std::string& what) { return "`probing -t " + what + " inject`"; }

std::string List(const std::vector<pid_t>& pids) {
  std::string text = pids.size() == 1 ? "process " : "processes ";
  for (std::size_t i = 0; i < pids.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(pids[i]);
  return text;
}

}  // namespace

asio::awaitable<void> Unseen::FindRanks() {
  is_looking_ = true;
  ranks_ = co_await Aside(io_, threads_, [] { return process::FindRanks(); });
  found_ = std::chrono::steady_clock::now();
  is_looking_ = false;
}

asio::awaitable<std::vector<process::RankProcess>> Unseen::WithoutProbe(std::optional<std::string> job) {
  if (!ranks_) {
    co_await FindRanks();
  } else if (!is_looking_ && std::chrono::steady_clock::now() - found_ > kRanksKept) {
    asio::co_spawn(io_, FindRanks(), asio::detached);  // for the next question
  }
  std::vector<process::RankProcess> without;
  for (const process::RankProcess& rank : *ranks_) {
    if (job && rank.identity.job != *job) continue;
    if (!targets_.Knows(rank.pid) && process::IsAlive(rank.pid)) without.push_back(rank);
  }
  co_return without;
}

asio::awaitable<std::string> Unseen::WhyNoTorch(std::string table, std::vector<pid_t> pids) {
  if (pids.size() > kMostLookedAt) pids.resize(kMostLookedAt);
  const std::vector<Framework> frameworks = co_await Aside(io_, threads_, [&] {
    std::vector<Framework> found;
    for (const pid_t pid : pids) found.push_back(FrameworkOf(pid));
    return found;
  });
  if (std::ranges::find(frameworks, Framework::kTorch) == frameworks.end()) {
    if (std::ranges::find(frameworks, Framework::kJax) == frameworks.end())
      co_return List(pids) + " has not loaded torch, and " + table + " is about PyTorch";
    co_return List(pids) + " runs JAX, and " + table +
        " is about PyTorch: of JAX the stacks, samples, memory and what the program logs are seen, and the "
        "steps that it "
        "begins with probing.step(n), as rows of python.spans called step";
  }
  const std::string name = pids.size() == 1 ? std::to_string(pids[0]) : "job";
  if (const std::string_view command = CommandBefore(table); !command.empty())
    co_return table + " has what `probing -t " + name + " " + std::string(command) +
        "` records, and there is nothing of it";
  if (!IsOfTracing(table)) co_return "";
  for (const pid_t pid : pids) {
    if (co_await targets_.SettingOf(pid, std::string(kTracing), kAskForTracing) != "off") co_return "";
  }
  co_return "torch is not traced in " + List(pids) + ": `probing -t " + name + " config " +
      std::string(kTracing) + "=on` begins with that";
}

asio::awaitable<Unseen::Report> Unseen::Explain(Question question) {
  Report report;
  const std::string table = TableOfProbe(question.sql);
  if (table.empty()) co_return report;
  std::vector<pid_t> asked;
  bool was_recorded = false;  // a profile, or a snapshot of a GPU's memory
  for (const Target* each : targets_.Shown()) {
    const bool is_wanted = (!question.target || each->pid == *question.target) &&
                           (!question.job || each->identity.JobName() == *question.job);
    if (!is_wanted || each->state != TargetState::kLive) continue;
    asked.push_back(each->pid);
    was_recorded = was_recorded || !each->profiles.empty();
  }
  if (question.target) {
    const pid_t pid = *question.target;
    if (!targets_.Knows(pid) && !targets_.HasEnded(pid))
      report.warnings.push_back("process " + std::to_string(pid) + " has no probe, which writes " + table +
                                ": " + Inject(std::to_string(pid)) + " enters it");
  } else {
    std::map<std::string, std::set<std::int64_t>> missing;
    for (const process::RankProcess& rank : co_await WithoutProbe(question.job))
      missing[rank.identity.job].insert(*rank.identity.rank);
    for (const auto& [job, ranks] : missing) {
      report.ranks_are_missing = true;
      report.warnings.push_back(std::to_string(ranks.size()) + (ranks.size() == 1 ? " rank" : " ranks") +
                                " of job " + job + " on this host " + (ranks.size() == 1 ? "has" : "have") +
                                " no probe, which writes " + table + ": " + Inject("job:" + job) +
                                " enters " + (ranks.size() == 1 ? "it" : "them"));
    }
    if (asked.empty() && missing.empty() && question.rows == 0)
      report.warnings.push_back(
          "no process is probed, and a probe writes " + table +
          ": `probing -t PID inject` enters one, `probing inject --job` all ranks of a job");
  }
  if (question.rows > 0 || asked.empty() || !IsOfTorch(table)) co_return report;
  if (was_recorded && !CommandBefore(table).empty()) co_return report;
  if (std::string why = co_await WhyNoTorch(table, asked); !why.empty())
    report.warnings.push_back(std::move(why));
  co_return report;
}

}  // namespace probing::daemon
