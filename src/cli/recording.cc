#include "cli/recording.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "flame/ranks.h"
#include "process/source_file.h"
#include "process/status.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

constexpr double kDefaultSeconds = 10;
constexpr double kDefaultHz = 100;
constexpr double kLongestAgo = 86400 * 365;

volatile std::sig_atomic_t g_interrupted = 0;  // set by a signal handler, so it cannot be anywhere else

std::uint64_t ShownTicks(const flame::Profile& profile, const flame::View& view) {
  std::uint64_t ticks = 0;
  for (const flame::Sample& sample : profile.samples()) {
    if (IsShown(view, profile, sample)) ticks += sample.ticks;
  }
  return ticks;
}

// What somebody who looks at the result should know about it.
void PrintRemarks(const Invocation& invocation, const observe::Recorder& recorder, const flame::View& view,
                  double seconds) {
  const double recorded = static_cast<double>(MonotonicNs() - recorder.started_ns()) / 1e9;
  const std::string pid = std::to_string(*invocation.target);
  if (!recorder.is_going()) {
    const bool gone = !recorder.ended() || recorder.ended()->code == Code::kNotFound;
    PrintAside((gone ? "process " + pid + " ended" : recorder.ended()->message) + " after " +
               Decimal(recorded, 1) + " of " + Decimal(seconds, 1) +
               " s: this is what was recorded until then\n");
  } else if (Interrupted()) {
    PrintAside("interrupted after " + Decimal(recorded, 1) + " of " + Decimal(seconds, 1) + " s\n");
  }
  const flame::Losses& losses = recorder.profile().losses();
  PrintLosses(losses, recorder.samples_taken());
  if (losses.spared * 10 > recorder.periods()) {
    PrintAside(std::to_string(losses.spared) + " of " + std::to_string(recorder.periods()) +
               " samples were left out so that the target is held for " +
               Decimal(observe::kMostHeld * 100, 0) +
               " % of its time at most: its stack changes too fast to be read otherwise\n");
  }
  if (recorder.equal_looks() * 10 < recorder.periods() * 9) {
    PrintAside(std::to_string(losses.missed) + " of " + std::to_string(recorder.periods()) +
               " samples came late (a busy machine); the next one counts for them" +
               (losses.spared > 0 ? " and for those left out" : "") + ", so shares are as sure as those of " +
               std::to_string(recorder.equal_looks()) + " samples\n");
  }
  PrintWhenNothingIsShown(recorder.profile(), view);
}

// "5m", "90", "1.5h": so many seconds.
std::optional<double> ParseDuration(std::string_view text) {
  double unit = 1;
  if (text.ends_with('h')) unit = 3600;
  if (text.ends_with('m')) unit = 60;
  if (text.ends_with('h') || text.ends_with('m') || text.ends_with('s')) text.remove_suffix(1);
  double number = 0;
  if (!ParseNumber(text, number) || !(number > 0 && number * unit <= kLongestAgo)) return std::nullopt;
  return number * unit;
}

// "5m": below 0, seconds before now. "2026-01-31 22:10:05.5": seconds since 1970.
std::optional<double> ParseMoment(const std::string& text) {
  if (const auto ago = ParseDuration(text)) return -*ago;
  std::tm time{};
  double seconds = 0;
  char separator = 0;
  int length = 0;
  const int fields = std::sscanf(text.c_str(), "%4d-%2d-%2d%c%2d:%2d:%lf%n", &time.tm_year, &time.tm_mon,
                                 &time.tm_mday, &separator, &time.tm_hour, &time.tm_min, &seconds, &length);
  const std::string_view rest = std::string_view(text).substr(std::min<std::size_t>(length, text.size()));
  if (fields != 7 || (separator != ' ' && separator != 'T') || !(seconds >= 0 && seconds < 61)) return {};
  if (!rest.empty() && rest != "Z" && rest != "+00" && rest != "+00:00") return {};
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  return static_cast<double>(timegm(&time)) + seconds;
}

Result<void> AddInterval(const Invocation& invocation, Json& request) {
  for (const std::string_view option : {"--duration", "--rate", "--native", "--async", "--subprocesses"}) {
    if (invocation.Has(option))
      return Error{Code::kUsage, std::string(option) + " is for a new recording, not for what was sampled",
                   ""};
  }
  if (invocation.Has("--last")) {
    if (invocation.Has("--from") || invocation.Has("--to"))
      return Error{Code::kUsage, "--last stands for both --from and --to", ""};
    const auto seconds = ParseDuration(invocation.Get("--last"));
    if (!seconds)
      return Error{Code::kUsage, "--last is a time as in 5m or 90s, not " + invocation.Get("--last"), ""};
    request["from"] = -*seconds;
  }
  for (const char* const option : {"--from", "--to"}) {
    if (!invocation.Has(option)) continue;
    const auto moment = ParseMoment(invocation.Get(option));
    if (!moment) {
      return Error{Code::kUsage,
                   std::string(option) + " is a time as in 5m (ago) or \"2026-01-31 22:10:05\" (UTC), not " +
                       invocation.Get(option),
                   ""};
    }
    request[option + 2] = *moment;
  }
  return {};
}

}  // namespace

std::vector<Option> RecordingOptions(std::vector<Option> more) {
  std::vector<Option> options{
      {"-d,--duration", "SECONDS", "how long to record (10)"},
      {"-r,--rate", "HZ",
       "samples per second (100, at most 10000; with --subprocesses 1000); the setting probing.sample_rate "
       "is "
       "seconds between two"},
      {"--gil", "", "only threads that hold the GIL"},
      {"--idle", "", "also threads that wait"},
      {"--threads", "", "tell threads apart"},
      {"--lines", "", "tell the lines of a function apart"},
      {"--native", "",
       "also native frames, and threads without Python; those that run are held for"
       " some microseconds each time"},
      {"--async", "", "by asyncio task instead of event loop; with --idle tasks that wait, too"},
      {"--subprocesses", "", "its children, too; it needs no Python itself"},
      {"--ranks", "", "of a job: tell ranks apart"},
      {"--rank", "RANKS", "of a job: show only these, as in 3 or 0-2,4"},
      {"--against", "RANKS",
       "of a job, with --rank: compare their shares with those of these ranks, or of all `others` (svg, "
       "html)"},
      {"--last", "TIME",
       "record nothing: what a probed process did in the last 5m, 90s, … (it is sampled all the time)"},
      {"--from", "TIME", "the same from then on: 10m ago, or a time in UTC, as in 2026-01-31 22:10:05"},
      {"--to", "TIME", "until then"},
  };
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

void CatchInterrupts() {
  struct sigaction action{};
  action.sa_handler = [](int) { g_interrupted = 1; };
  // Without SA_RESTART: whoever sleeps wakes up.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool Interrupted() { return g_interrupted != 0; }

void PrintWhenNothingIsShown(const flame::Profile& profile, const flame::View& view) {
  if (ShownTicks(profile, view) == 0 && !profile.samples().empty()) {
    PrintAside("nothing to show: no thread " +
               std::string(view.shown == flame::Shown::kGil ? "held the GIL" : "was active") +
               "\n  hint: --idle shows what threads wait for\n");
  }
}

void PrintLosses(const flame::Losses& losses, std::uint64_t samples_taken) {
  if (losses.torn > 0) {
    // What they would have shown is not known: at worst all of it belongs to one function.
    const double share =
        100.0 * static_cast<double>(losses.torn) / static_cast<double>(losses.torn + samples_taken);
    PrintAside(std::to_string(losses.torn) +
               " samples are left out: the stack changed while it was read, and its "
               "thread could not be held; shares may be off by up to " +
               Decimal(share, 1) + " points\n");
  }
  if (losses.unmerged > 0) {
    PrintAside(std::to_string(losses.unmerged) +
               " samples are left out: native and Python frames did not fit together\n");
  }
  if (losses.dropped > 0)
    PrintAside(std::to_string(losses.dropped) + " samples are left out: too many to keep\n");
}

std::string_view TasksOf(const Invocation& invocation) {
  if (!invocation.Has("--async")) return "none";
  return invocation.Has("--idle") ? "all" : "running";
}

Result<double> Duration(const Invocation& invocation) {
  return invocation.GetNumber("--duration", kDefaultSeconds);
}

Result<double> SampleRate(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const double hz, invocation.GetNumber("--rate", kDefaultHz));
  if (hz > observe::kMaxHzOfOne) {
    return Error{Code::kUsage,
                 "--rate is at most " + Decimal(observe::kMaxHzOfOne, 0) + " samples per second", ""};
  }
  if (hz > observe::kMaxHz && (invocation.job || invocation.Has("--subprocesses"))) {
    return Error{Code::kUsage,
                 "--rate is at most " + Decimal(observe::kMaxHz, 0) +
                     (invocation.job ? " for a job" : " with --subprocesses"),
                 ""};
  }
  return hz;
}

observe::SamplerOptions SamplerOptionsOf(const Invocation& invocation) {
  observe::SamplerOptions options;
  if (invocation.Has("--native")) options.native_symbols = std::make_shared<unwind::SymbolStore>();
  using Tasks = observe::SamplerOptions::Tasks;
  if (invocation.Has("--async")) options.tasks = invocation.Has("--idle") ? Tasks::kAll : Tasks::kRunning;
  return options;
}

Result<flame::View> ViewOf(const Invocation& invocation) {
  if (invocation.Has("--gil") && invocation.Has("--idle")) {
    return Error{Code::kUsage, "--gil and --idle exclude each other", "who holds the GIL is not idle"};
  }
  flame::View view;
  if (invocation.Has("--gil")) view.shown = flame::Shown::kGil;
  if (invocation.Has("--idle")) view.shown = flame::Shown::kAll;
  view.by_rank = invocation.Has("--ranks");
  view.by_thread = invocation.Has("--threads");
  view.by_process = invocation.Has("--subprocesses");
  view.by_line = invocation.Has("--lines");
  if (!invocation.directory.empty()) {  // as it was recorded: its sources are not here
    view.title = invocation.directory;
    return view;
  }
  for (const char* option : {"--ranks", "--rank", "--against"}) {
    if (!invocation.job && invocation.Has(option)) {
      return Error{Code::kUsage, std::string(option) + " is for all ranks of a job",
                   "as in `probing -t job record`; -t rank:3 is one rank"};
    }
  }
  if (invocation.Has("--rank")) {
    ASSIGN_OR_RETURN(view.ranks, flame::ParseRanks(invocation.Get("--rank")));
  } else if (invocation.Has("--against")) {
    return Error{Code::kUsage, "--against needs --rank", "as in --rank 2 --against others"};
  }
  if (invocation.job) return view;
  if (!invocation.endpoint) {
    view.source_of = [pid = *invocation.target](const std::string& file) {
      auto text = process::ReadSourceFile(pid, file);
      return text.ok() ? std::move(*text) : std::string();
    };
  }
  view.title = invocation.endpoint ? invocation.remote_name
                                   : OneLine(process::CommandLine(*invocation.target), 80) + " (pid " +
                                         std::to_string(*invocation.target) + ")";
  return view;
}

Result<observe::Recorder> Record(const Invocation& invocation, const flame::View& view) {
  observe::RecorderOptions options;
  ASSIGN_OR_RETURN(options.hz, SampleRate(invocation));
  ASSIGN_OR_RETURN(const double seconds, Duration(invocation));
  options.follow_children = invocation.Has("--subprocesses");
  options.sampler = SamplerOptionsOf(invocation);
  CatchInterrupts();
  ASSIGN_OR_RETURN(observe::Recorder recorder, observe::Recorder::Start(*invocation.target, options));
  {
    ProgressBar progress(seconds);
    const Deadline deadline = Deadline::AfterNs(static_cast<std::int64_t>(seconds * 1e9));
    while (!Interrupted() && !deadline.passed() && recorder.Sample()) {
      std::string what = std::to_string(recorder.samples_taken()) + " samples";
      if (recorder.processes() > 1) what += " of " + std::to_string(recorder.processes()) + " processes";
      progress.Show(recorder.started_ns(), what);
      recorder.Wait();
    }
  }
  PrintRemarks(invocation, recorder, view, seconds);
  return recorder;
}

bool IsOfThePast(const Invocation& invocation) {
  return invocation.Has("--last") || invocation.Has("--from") || invocation.Has("--to");
}

Result<std::string> RecordRemote(const Invocation& invocation, std::string_view format) {
  Json request{{"target", *invocation.target},
               {"format", format},
               {"threads", invocation.Has("--threads")},
               {"lines", invocation.Has("--lines")},
               {"show", invocation.Has("--gil")    ? "gil"
                        : invocation.Has("--idle") ? "all"
                                                   : "active"}};
  if (IsOfThePast(invocation)) {
    RETURN_IF_ERROR(AddInterval(invocation, request));
  } else {
    ASSIGN_OR_RETURN(request["hz"], SampleRate(invocation));
    ASSIGN_OR_RETURN(request["seconds"], Duration(invocation));
    request["native"] = invocation.Has("--native");
    request["tasks"] = TasksOf(invocation);
    request["subprocesses"] = invocation.Has("--subprocesses");
  }
  ASSIGN_OR_RETURN(Bytes answer,
                   PostForBytes(std::string(wire::kFlamegraphRoute), request, Patience::kEndless));
  return std::move(answer.bytes);
}

Result<void> CheckWritable(const std::string& path) {
  if (path == "-") return {};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return ErrnoError("write " + path, EISDIR);
  if (access(path.c_str(), W_OK) == 0) return {};
  if (errno != ENOENT) return ErrnoError("write " + path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) return ErrnoError("write " + path);
  return {};
}

Result<void> WriteResult(const std::string& path, std::string_view content) {
  if (path == "-") {
    Print(content);
    return {};
  }
  const ScopedFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return ErrnoError("write " + path);
  RETURN_IF_ERROR(WriteAll(fd.get(), content));
  Print(path + "\n");
  return {};
}

}  // namespace probing::cli
