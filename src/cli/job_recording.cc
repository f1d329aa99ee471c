#include "cli/job_recording.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ranges.h"
#include "cli/child.h"
#include "cli/daemon_client.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/recording.h"
#include "cli/remote_profile.h"
#include "flame/ranks.h"
#include "observe/stacks/recorder.h"
#include "process/source_file.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

// What it takes until all hosts are ready to begin: a connection, and each process is looked into.
constexpr std::int64_t kLeadNs = 500'000'000;
constexpr std::int64_t kLeadPerRankNs = 30'000'000;
constexpr std::int64_t kMostLeadNs = 10'000'000'000;
constexpr int kWaitMs = 50;
constexpr flame::Profile::Limits kLimits{.samples = 4'000'000, .table_bytes = 256 << 20};

struct Request {
  double hz = 0;
  double seconds = 0;
  std::int64_t start_ns = 0;  // monotonic
  std::uint64_t seed = 0;
};

// The ranks of one other host, and a process that waits for what its probingd records.
struct Host {
  std::string name;
  std::vector<PlacedRank> ranks;
  Child child;
  std::optional<RemoteProfile> recorded{};
};

std::string RankList(const flame::Ranks& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + Ranges(ranks);
}

// Who was recorded and who was not.
class Receipt {
 public:
  explicit Receipt(const JobRanks& job) : partial_(job.is_partial), lines_(job.problems) {
    std::int64_t world = 0;
    for (const PlacedRank& rank : job.ranks) {
      ranks_.insert(*rank.process.identity.rank);
      world = std::max(world, rank.process.identity.world_size.value_or(0));
    }
    if (world > kMostNamed) return;
    flame::Ranks missing;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      if (ranks_.insert(rank).second) missing.insert(rank);
    }
    if (!missing.empty()) Miss(missing, "not found on this host, nor on others that a probingd here knows");
  }

  void Miss(const flame::Ranks& ranks, const std::string& why) {
    missing_.insert(ranks.begin(), ranks.end());
    lines_.push_back(RankList(ranks) + ": " + why);
  }
  void Note(const std::string& line) { lines_.push_back(line); }

  // How long before the end a rank was gone, or that it was never there.
  void Gone(std::int64_t rank, pid_t pid, const std::string& why, std::optional<double> after_s) {
    if (!after_s) return Miss({rank}, why);
    Note("rank " + std::to_string(rank) + " (process " + std::to_string(pid) + ") ended after " +
         Decimal(*after_s, 1) + " s: this is what was recorded until then");
  }

  bool is_partial() const { return partial_ || !missing_.empty(); }

  void Print(std::size_t hosts, double clock_error_ms) const {
    std::string line = "probing: " + std::string(is_partial() ? "partial: " : "") +
                       std::to_string(ranks_.size() - missing_.size()) + " of " +
                       std::to_string(ranks_.size()) + " ranks, sampled at the same moments";
    if (hosts > 0) {
      line += "; " + std::to_string(hosts) + (hosts == 1 ? " other host" : " other hosts") +
              ", whose clocks are known to " + Decimal(clock_error_ms, 2) + " ms";
    }
    PrintAside(line + "\n");
    for (const std::string& each : lines_) PrintAside("probing:   " + each + "\n");
  }

 private:
  static constexpr std::int64_t kMostNamed = 100'000;
  flame::Ranks ranks_, missing_;
  bool partial_;
  std::vector<std::string> lines_;
};

flame::Ranks RanksOf(const std::vector<PlacedRank>& list) {
  flame::Ranks ranks;
  for (const PlacedRank& each : list) ranks.insert(*each.process.identity.rank);
  return ranks;
}

std::int64_t RankOf(const std::vector<PlacedRank>& list, pid_t pid) {
  const auto found =
      std::ranges::find_if(list, [&](const PlacedRank& each) { return each.process.pid == pid; });
  return found == list.end() ? 0 : *found->process.identity.rank;
}

// The first time of a rank that is named twice (by an elastic launcher that is just starting it again)
// counts.
std::vector<Host> HostsOf(std::vector<PlacedRank> ranks) {
  std::vector<Host> hosts;
  for (PlacedRank& rank : ranks) {
    const std::string name = rank.endpoint ? rank.endpoint->ToText() : "";
    auto host = std::ranges::find(hosts, name, &Host::name);
    if (host == hosts.end()) host = hosts.insert(host, Host{.name = name, .ranks = {}, .child = {}});
    host->ranks.push_back(std::move(rank));
  }
  return hosts;
}

Result<Child> RecordThere(const Host& host, const Invocation& invocation, const Request& request) {
  const PlacedRank& any = host.ranks.front();
  Json targets = Json::array();
  for (const PlacedRank& rank : host.ranks)
    targets.push_back({{"pid", rank.process.pid}, {"rank", *rank.process.identity.rank}});
  const auto ahead_ns = static_cast<std::int64_t>(any.clock_ahead_ms * 1e6);
  const Json body{{"targets", std::move(targets)},
                  {"seconds", request.seconds},
                  {"hz", request.hz},
                  {"native", invocation.Has("--native")},
                  {"tasks", TasksOf(invocation)},
                  {"subprocesses", invocation.Has("--subprocesses")},
                  {"start_ns", request.start_ns - MonotonicNs() + WallNs() + ahead_ns},
                  {"seed", request.seed}};
  return StartChild(/*collect=*/true, [&] {
    UseDaemonAt(*any.endpoint);
    const Result<Json> answer = PostToDaemon(std::string(wire::kProfileRoute), body, Patience::kEndless);
    Print(answer.ok() ? EncodeJson(*answer) : EncodeJson(Json{{"problem", answer.error().message}}));
    return 0;
  });
}

void Collect(Host& host, const Request& request, Receipt& receipt) {
  const ChildOutcome outcome = Await(std::move(host.child));
  const Json answer = Json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  const std::string problem =
      answer.is_object() ? answer.value("problem", "") : "what it recorded did not come";
  if (!problem.empty()) return receipt.Miss(RanksOf(host.ranks), host.name + ": " + problem);
  Result<RemoteProfile> profile = ProfileFromJson(answer);
  if (!profile.ok()) return receipt.Miss(RanksOf(host.ranks), host.name + ": " + profile.error().message);
  const auto ahead_ns = static_cast<std::int64_t>(host.ranks.front().clock_ahead_ms * 1e6);
  const std::int64_t began_ns = profile->started_ns - ahead_ns - WallNs() + MonotonicNs();
  const double late_ms = static_cast<double>(began_ns - request.start_ns) / 1e6;
  if (late_ms > 2e3 / request.hz)
    receipt.Note(host.name + ": began " + Decimal(late_ms, 0) + " ms after the others");
  for (const RemoteProfile::Gone& gone : profile->gone)
    receipt.Gone(RankOf(host.ranks, gone.pid), gone.pid, host.name + ": " + gone.why, gone.after_s);
  profile->started_ns = began_ns;
  host.recorded = std::move(*profile);
}

bool IsRunning(const Child& child) { return kill(child.pid, 0) == 0; }

// Samples the ranks of this host until the time is up; without any, waits for the other hosts.
void SampleHere(observe::Recorder* recorder, const std::vector<Host>& elsewhere, const Request& request) {
  std::size_t ranks = 0;
  for (const Host& host : elsewhere) ranks += host.ranks.size();
  const std::string there =
      elsewhere.empty() ? "" : (recorder != nullptr ? " and " : "") + std::to_string(ranks) + " elsewhere";
  ProgressBar progress(request.seconds);
  const Deadline deadline =
      Deadline::AfterNs(request.start_ns - MonotonicNs() + static_cast<std::int64_t>(request.seconds * 1e9));
  while (!Interrupted() && !deadline.passed()) {
    const std::string here = recorder == nullptr
                                 ? ""
                                 : std::to_string(recorder->samples_taken()) + " samples of " +
                                       std::to_string(recorder->processes()) + " processes here";
    progress.Show(request.start_ns, here + there);
    if (recorder != nullptr && recorder->Sample()) {
      recorder->Wait();
    } else if (elsewhere.empty()) {
      return;  // all have ended
    } else {
      SleepUs(kWaitMs * 1000);
      recorder = nullptr;
    }
  }
}

// Both sides of a comparison have to be there.
Result<void> ResolveOthers(const Invocation& invocation, const flame::Profile& profile, flame::View& view) {
  const flame::Ranks all = flame::RanksIn(profile);
  if (!view.ranks.empty() &&
      std::ranges::none_of(view.ranks, [&](std::int64_t rank) { return all.contains(rank); }))
    return Error{Code::kNotFound, "nothing was recorded of " + RankList(view.ranks),
                 "recorded: " + RankList(all)};
  const std::string against = invocation.Get("--against");
  if (against.empty()) return {};
  if (against == "others") {
    view.against = all;
    for (const std::int64_t rank : view.ranks) view.against.erase(rank);
  } else {
    ASSIGN_OR_RETURN(view.against, flame::ParseRanks(against));
    std::erase_if(view.against, [&](std::int64_t rank) { return !all.contains(rank); });
  }
  if (view.against.empty())
    return Error{Code::kNotFound, "there are no ranks to compare with", "recorded: " + RankList(all)};
  return {};
}

}  // namespace

Result<JobRecording> RecordJob(const Invocation& invocation, flame::View& view) {
  Request request;
  ASSIGN_OR_RETURN(request.hz, SampleRate(invocation));
  ASSIGN_OR_RETURN(request.seconds, Duration(invocation));
  if (const std::string against = invocation.Get("--against"); !against.empty() && against != "others")
    RETURN_IF_ERROR(flame::ParseRanks(against));  // at once, not after the recording
  if (invocation.Has("--against") && (view.by_rank || view.by_thread)) {
    return Error{Code::kUsage, "--against compares functions, whatever rank or thread they are in",
                 "leave out --ranks and --threads"};
  }
  CatchInterrupts();
  ASSIGN_OR_RETURN(const JobRanks job, FindJobRanks(*invocation.job));
  Receipt receipt(job);
  std::vector<Host> hosts = HostsOf(job.ranks);
  std::optional<Host> here;
  if (hosts.front().name.empty()) {
    here = std::move(hosts.front());
    hosts.erase(hosts.begin());
  }
  std::size_t most = 0;
  double clock_error_ms = 0;
  for (const Host& host : hosts) {
    most = std::max({most, host.ranks.size(), here ? here->ranks.size() : 0});
    clock_error_ms = std::max(clock_error_ms, host.ranks.front().clock_error_ms);
  }
  const std::int64_t lead_ns =
      hosts.empty() ? 0 : std::min(kLeadNs + static_cast<std::int64_t>(most) * kLeadPerRankNs, kMostLeadNs);
  request.start_ns = MonotonicNs() + lead_ns;
  request.seed = static_cast<std::uint64_t>(request.start_ns);
  for (Host& host : hosts) {
    ASSIGN_OR_RETURN(host.child, RecordThere(host, invocation, request));
  }

  std::optional<observe::Recorder> recorder;
  if (here) {
    observe::RecorderOptions options{.hz = request.hz,
                                     .follow_children = invocation.Has("--subprocesses"),
                                     .sampler = SamplerOptionsOf(invocation),
                                     .limits = kLimits,
                                     .start_ns = hosts.empty() ? 0 : request.start_ns,
                                     .seed = request.seed};
    std::vector<observe::Root> roots;
    for (const PlacedRank& rank : here->ranks)
      roots.push_back({rank.process.pid, rank.process.identity.rank});
    Result<observe::Recorder> started = observe::Recorder::StartAll(roots, options);
    if (started.ok())
      recorder.emplace(std::move(*started));
    else if (hosts.empty())
      return std::move(started.error());
    else
      receipt.Miss(RanksOf(here->ranks), started.error().message);
    if (hosts.empty()) request.start_ns = recorder->started_ns();
  }
  SampleHere(recorder ? &*recorder : nullptr, hosts, request);

  for (Host& host : hosts) {
    if (Interrupted() && IsRunning(host.child)) kill(host.child.pid, SIGTERM);
    Collect(host, request, receipt);
  }
  std::vector<flame::Part> parts;
  std::uint64_t samples = 0;
  if (recorder) {
    for (const observe::Recorder::Gone& gone : recorder->gone()) {
      const auto after_s = static_cast<double>(gone.at_ns - recorder->started_ns()) / 1e9;
      receipt.Gone(RankOf(here->ranks, gone.pid), gone.pid, gone.error.message,
                   gone.at_ns == 0 ? std::nullopt : std::optional(after_s));
    }
    parts.push_back({&recorder->profile(), 0});
    samples += recorder->samples_taken();
  }
  for (const Host& host : hosts) {
    if (!host.recorded) continue;
    parts.push_back({&host.recorded->profile, -host.recorded->started_ns});
    samples += host.recorded->samples_taken;
  }
  receipt.Print(hosts.size(), clock_error_ms);
  if (parts.empty()) return Error{Code::kPartial, "no rank could be recorded", ""};
  if (Interrupted()) PrintAside("interrupted: this is what was recorded until then\n");
  JobRecording result{flame::Merge(parts, kLimits), receipt.is_partial()};
  RETURN_IF_ERROR(ResolveOthers(invocation, result.profile, view));
  PrintLosses(result.profile.losses(), samples);
  PrintWhenNothingIsShown(result.profile, view);
  view.title = "job " + OneLine(job.job, 80) + ": ";
  view.title += RankList(view.ranks.empty() ? flame::RanksIn(result.profile) : view.ranks);
  if (!view.against.empty()) view.by_process = false;
  if (!view.against.empty()) view.title += " against " + Ranges(view.against);
  if (here) {
    view.source_of = [pid = here->ranks.front().process.pid](const std::string& file) {
      auto text = process::ReadSourceFile(pid, file);
      return text.ok() ? std::move(*text) : std::string();
    };
  }
  return result;
}

}  // namespace probing::cli
