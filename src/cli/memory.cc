// probing memory: what the processes of a job take, now and since they are watched; what leaks; what is on
// the heap of one, read from outside, or in the GPU allocator of torch.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/gpu_memory.h"
#include "cli/output.h"
#include "cli/query_client.h"
#include "heap/heap.h"

namespace probing::cli {
namespace {

// Children are in system.process too; what changed over time is known of targets only.
constexpr const char* kSql = R"(
WITH series AS (
  SELECT pid, max(rss_mb) AS peak_mb, arg_max(rss_mb, timestamp) - arg_min(rss_mb, timestamp) AS growth_mb,
         max(timestamp) - min(timestamp) AS watched
  FROM memory_usage GROUP BY pid)
SELECT process.pid, process.name, round(process.rss / 1048576, 1) AS rss_mb,
       round(process.vms / 1048576, 1) AS vms_mb, round(series.peak_mb, 1) AS peak_mb,
       round(series.growth_mb, 1) AS growth_mb, date_trunc('second', series.watched) AS watched
FROM system.process AS process LEFT JOIN series ON series.pid = process.pid
ORDER BY process.rss DESC)";

// Every question to python.leaks counts once; so many counts are kept, and half of them must be lower
// than the other half.
constexpr int kCounts = 16;
constexpr const char* kCountSql = "SELECT count(steps) FROM python.leaks";
constexpr const char* kLeaksSql = R"(
SELECT type, shape, dtype, count, grown, round(bytes / 1048576, 2) AS mb,
       round(grown_bytes / 1048576, 2) AS grown_mb, module, made_by, holder,
       round(epoch(now()) - epoch(since), 1) AS seconds,
       coalesce(steps, (SELECT nullif(count(*), 0) FROM python.torch_steps WHERE timestamp >= since)) AS steps
FROM python.leaks)";

// Leaks are counted by the probe: without one every answer would be empty.
Result<void> RequireProbe(const Invocation& invocation) {
  if (!invocation.target) return {};  // another host's probingd says so itself
  ASSIGN_OR_RETURN(const std::string answer,
                   Query({.target = invocation.target,
                          .sql = "SELECT count(*) FROM probing.targets WHERE state <> 'ended'",
                          .format = "csv"}));
  if (answer.find("\n0") == std::string::npos) return {};
  const std::string pid = std::to_string(*invocation.target);
  return Error{Code::kNotFound, "process " + pid + " has no probe, which counts objects",
               "run `probing -t " + pid + " inject` first"};
}

// What the collector does not know, such as NumPy arrays and bytes, is in no count of the probe: it is
// counted from outside, at the beginning, in the middle and at the end.
class UntrackedCounts {
 public:
  explicit UntrackedCounts(const Invocation& invocation)
      : pid_(invocation.endpoint ? std::nullopt : invocation.target) {}

  void Count() {
    if (!pid_) return;
    Result<heap::Report> report = heap::ReadLive(*pid_, {.top = 0});
    if (report.ok())
      reports_.push_back(std::move(*report));
    else
      pid_.reset();  // a Python that is not read from outside
  }

  // The same rows as python.leaks has, of classes that grew from each count to the next.
  void AddTo(Json& rows, double seconds) const {
    if (reports_.size() < 3) return;
    for (const heap::ClassUse& last : reports_.back().classes) {
      const heap::ClassUse first = UseIn(reports_.front(), last.name);
      const heap::ClassUse middle = UseIn(reports_[reports_.size() / 2], last.name);
      const bool grew = middle.own_bytes > first.own_bytes + kLeastBytes / 4 &&
                        last.own_bytes > middle.own_bytes + kLeastBytes / 4 &&
                        last.own_bytes > first.own_bytes + kLeastBytes &&
                        last.count > first.count + kLeastObjects;
      if (!grew || last.tracked > 0) continue;
      const auto megabytes = [](std::uint64_t bytes) {
        return std::round(static_cast<double>(bytes) / 10486) / 100;
      };
      rows.push_back({{"type", last.name},
                      {"shape", nullptr},
                      {"dtype", nullptr},
                      {"count", last.count},
                      {"grown", last.count - first.count},
                      {"mb", megabytes(last.own_bytes)},
                      {"grown_mb", megabytes(last.own_bytes - first.own_bytes)},
                      {"module", nullptr},
                      {"made_by", nullptr},
                      {"holder", HolderOf(last.name)},
                      {"seconds", seconds},
                      {"steps", nullptr}});
    }
  }

 private:
  static constexpr std::uint64_t kLeastBytes = 1 << 20;
  static constexpr std::uint64_t kLeastObjects = 20;

  static heap::ClassUse UseIn(const heap::Report& report, const std::string& name) {
    const auto found = std::ranges::find(report.classes, name, &heap::ClassUse::name);
    return found == report.classes.end() ? heap::ClassUse{} : *found;
  }

  // Of what holds most, the first that holds some of this class: "list of 300 'arrays' ← module __main__".
  Json HolderOf(const std::string& name) const {
    for (const heap::Holder& holder : reports_.back().holders) {
      if (std::ranges::find(holder.holds, name, &heap::ClassUse::name) == holder.holds.end()) continue;
      std::string text;
      for (auto step = holder.chain.rbegin(); step != holder.chain.rend(); ++step)
        text += (text.empty() ? "" : " ← ") + *step;
      return text;
    }
    return nullptr;
  }

  std::optional<pid_t> pid_;
  std::vector<heap::Report> reports_;
};

// Returns JSON, and in `seconds` how long objects were counted.
Result<std::string> FindLeaks(const Invocation& invocation, double& seconds, UntrackedCounts& untracked) {
  constexpr double kDefaultSeconds = 4;
  ASSIGN_OR_RETURN(seconds, invocation.GetNumber("--duration", kDefaultSeconds));
  const auto pause_us = static_cast<std::int64_t>(seconds * 1e6 / (kCounts - 1));
  for (int i = 1; i < kCounts; ++i) {
    ASSIGN_OR_RETURN(const std::string answer,
                     Query({.target = invocation.target, .sql = kCountSql, .format = "csv"}));
    // With census=on the job has counted itself, at the ends of steps: no need to wait, unless one wants to.
    const bool known = answer.find("\n0") == std::string::npos;
    if (known && !invocation.Has("--duration")) break;
    if (i == 1 || i == kCounts / 2) untracked.Count();
    SleepUs(pause_us);
  }
  untracked.Count();
  return Query({.target = invocation.target, .sql = kLeaksSql, .format = "json"});
}

std::string Number(const Json& row, const char* name, const char* format) {
  char text[32];
  std::snprintf(text, sizeof text, format, row[name].is_number() ? row[name].get<double>() : 0.0);
  return text;
}

std::string Text(const Json& row, const char* name) {
  return row[name].is_string() ? row[name].get<std::string>() : "";
}

// A leak in two lines, what grows and what holds it: a table of these columns fits no terminal.
std::string DescribeLeak(const Json& row) {
  std::string what = Text(row, "type");
  for (const char* name : {"shape", "dtype"})
    if (!Text(row, name).empty()) what += " " + Text(row, name);
  std::string text = Painted(what, Colour::kRed) + ": " + Number(row, "count", "%.0f") + ", " +
                     Number(row, "grown", "%.0f") + " more in " + Number(row, "seconds", "%.1f") + " s";
  if (row["steps"].is_number()) text += " (" + Number(row, "steps", "%.0f") + " steps)";
  text += ", +" + Number(row, "grown_mb", "%.2f") + " MB of " + Number(row, "mb", "%.2f");
  if (!Text(row, "made_by").empty()) text += ", made by " + Text(row, "made_by");
  if (!Text(row, "module").empty()) text += ", module " + Text(row, "module");
  text += "\n";
  return Text(row, "holder").empty() ? text : text + "  held by " + Text(row, "holder") + "\n";
}

Result<int> PrintLeaks(const Invocation& invocation) {
  RETURN_IF_ERROR(RequireProbe(invocation));
  double seconds = 0;
  UntrackedCounts untracked(invocation);
  ASSIGN_OR_RETURN(const std::string answer, FindLeaks(invocation, seconds, untracked));
  Json rows = Json::parse(answer, nullptr, false);
  if (!rows.is_array()) return Error{Code::kFailed, "cannot read what probingd answered"};
  untracked.AddTo(rows, seconds);
  if (invocation.Has("--json")) {
    Print(FormatJson(rows));
    return 0;
  }
  for (const Json& row : rows) Print(DescribeLeak(row));
  if (rows.empty()) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "nothing grew steadily in %.1f s; a slow leak needs longer: --duration 60\n", seconds);
    Print(text);
  }
  return 0;
}

Result<int> ShowHeap(const Invocation& invocation) {
  heap::Options options;
  if (invocation.Has("--top") && (!ParseNumber(invocation.Get("--top"), options.top) || options.top == 0)) {
    return Error{Code::kUsage, "--top takes a number above 0, not '" + invocation.Get("--top") + "'", ""};
  }
  if (invocation.endpoint) {
    return Error{Code::kUsage, "--heap is for processes of this host",
                 "run it there: `ssh HOST probing -t PID memory --heap`"};
  }
  const bool is_core = invocation.Has("--core");
  if (!is_core && !invocation.target.has_value())
    return Error{Code::kUsage, "--heap looks into one process", "name it: probing -t PID memory --heap"};
  const std::string program = invocation.arguments.empty() ? "" : invocation.arguments.front();
  ASSIGN_OR_RETURN(const heap::Report report, is_core
                                                  ? heap::ReadCore(invocation.Get("--core"), program, options)
                                                  : heap::ReadLive(*invocation.target, options));
  for (const std::string& remark : report.remarks) PrintAside("note: " + remark + "\n");
  Print(invocation.Has("--json") ? heap::ReportToJson(report) : heap::ReportToText(report));
  return 0;
}

// Options that belong to some of the questions only.
Result<void> CheckOptions(const Invocation& invocation) {
  const bool heap = invocation.Has("--heap"), gpu = invocation.Has("--gpu"),
             leaks = invocation.Has("--leaks");
  if (heap + gpu + leaks > 1) return Error{Code::kUsage, "one of --heap, --gpu and --leaks at a time", ""};
  const struct {
    const char* option;
    bool fits;
    const char* of;
  } kOptions[] = {{"--core", heap, "--heap"},
                  {"--output", gpu, "--gpu"},
                  {"--top", heap || gpu, "--heap and --gpu"},
                  {"--duration", leaks || gpu, "--leaks and --gpu"}};
  for (const auto& [option, fits, of] : kOptions) {
    if (invocation.Has(option) && !fits)
      return Error{Code::kUsage, std::string(option) + " is of " + of, "give both"};
  }
  if (!invocation.directory.empty() && !gpu)
    return Error{Code::kUsage, "memory needs a process; a file can be a snapshot of a GPU's memory",
                 "probing -t snapshot.pickle memory --gpu"};
  return {};
}

Result<int> Run(const Invocation& invocation) {
  RETURN_IF_ERROR(CheckOptions(invocation));
  if (invocation.Has("--heap")) return ShowHeap(invocation);
  if (invocation.Has("--gpu")) return ShowGpuMemory(invocation);
  const std::string format = invocation.Has("--json") ? "json" : "table";
  if (!invocation.Has("--leaks")) {
    ASSIGN_OR_RETURN(const std::string answer,
                     Query({.target = invocation.target, .sql = kSql, .format = format}));
    Print(answer);
    return 0;
  }
  if (!invocation.target.has_value() && !invocation.endpoint.has_value()) {
    return Error{Code::kUsage, "--leaks looks into one process", "name it: probing -t PID memory --leaks"};
  }
  return PrintLeaks(invocation);
}

}  // namespace

Command MemoryCommand() {
  return {
      .name = "memory",
      .summary = "Show the memory of a target's processes, its growth, leaks, its heap and its GPUs' memory",
      .example = "probing -t 1234 memory --leaks",
      .target = TargetUse::kOptional,
      .target_may_be_directory = true,
      .all_is_fine = true,
      .options = {{"--heap", "", "objects by class, and what holds most: from outside, without a probe"},
                  {"--gpu", "",
                   "what torch's GPU allocator has, and who allocated it; also of a snapshot file"},
                  {"--top", "N", "of --heap and --gpu: how many classes and holders (10)"},
                  {"--core", "FILE", "of --heap: a core file; its program, or a folder of files, may follow"},
                  {"--leaks", "", "what there is more and more of, and who holds it"},
                  {"-d,--duration", "SECONDS",
                   "how long to look for leaks (4), or to record who allocates (3)"},
                  {"-o,--output", "FILE", "of --gpu: write the snapshot, for pytorch.org/memory_viz"},
                  {"--json", "", "print JSON"}},
      .instead_of_target = "--core",
      .run = Run};
}

}  // namespace probing::cli
