// probing top: which functions the time goes to, live.

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "base/clock.h"
#include "base/visible.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/recording.h"
#include "cli/remote_profile.h"
#include "cli/terminal.h"
#include "flame/ranking.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kRefreshNs = 1'000'000'000;
constexpr std::size_t kRowsWithoutTerminal = 30;
constexpr std::size_t kKeptSamples = 100'000;  // the last second of a busy process with many threads

// The whole screen, keys without Enter; as it was before when the scope ends.
class Screen {
 public:
  Screen() {
    if (tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    keys_ = true;
    Draw("\x1b[?1049h\x1b[?25l");
  }
  ~Screen() {
    if (!keys_) return;
    Draw("\x1b[?25h\x1b[?1049l");
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Whether somebody wants to leave.
  bool QuitPressed() const {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    char key = 0;
    return keys_ && poll(&input, 1, 0) == 1 && read(STDIN_FILENO, &key, 1) == 1 && (key == 'q' || key == 'Q');
  }

  static std::size_t Rows() {
    const auto size = FindTerminalSize();
    return size && size->rows > 8 ? static_cast<std::size_t>(size->rows) - 5 : 20;
  }

 private:
  termios before_{};
  bool keys_ = false;
};

std::string Percent(std::uint64_t ticks, double all) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%5.1f%%",
                all > 0 ? 100.0 * static_cast<double>(ticks) / all : 0.0);
  return text.data();
}

// What was seen in some time, here or elsewhere.
struct Seen {
  const flame::Profile& profile;
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;
  std::uint64_t samples_taken = 0;
};

// The last second.
Seen LatelySeen(const observe::Recorder& recorder) {
  const std::int64_t now_ns = MonotonicNs();
  return {recorder.profile(), std::max(recorder.started_ns(), now_ns - kRefreshNs), now_ns,
          recorder.samples_taken()};
}

std::string Format(const Seen& seen, const flame::View& view, std::size_t max_rows) {
  const flame::Profile& profile = seen.profile;
  const flame::Ranking ranking = Rank(profile, view, seen.from_ns, seen.to_ns + profile.period_ns());
  const double all =
      static_cast<double>(seen.to_ns - seen.from_ns) / static_cast<double>(profile.period_ns());

  std::string text = Visible(view.title) + "\nGIL " + Percent(ranking.with_gil, all) + ", on CPU " +
                     Percent(ranking.on_cpu, all) + ", " + std::to_string(ranking.threads) + " threads, " +
                     std::to_string(seen.samples_taken) + " samples";
  const flame::Losses& losses = profile.losses();
  const std::uint64_t unreadable = losses.torn + losses.unmerged;
  if (unreadable > 0) text += ", " + std::to_string(unreadable) + " unreadable";
  std::vector<std::vector<std::string>> rows;
  for (const flame::RankedFunction& ranked : ranking.functions) {
    if (rows.size() >= max_rows) break;
    std::string place = flame::ShortFile(ranked.function.file);
    if (ranked.function.line > 0) place += ":" + std::to_string(ranked.function.line);
    rows.push_back({Percent(ranked.own, all), Percent(ranked.total, all),
                    OneLine(ranked.function.function, 60), OneLine(place, 80)});
  }
  return text + "\n\n" + FormatTable({"  %OWN", "%TOTAL", "FUNCTION", "FILE:LINE"}, rows);
}

// For a person: the whole screen, painted anew.
void Repaint(const std::string& text) {
  Draw("\x1b[H\x1b[2J");
  Print(text + "\n" + Painted("q quits", Colour::kDim));
}

Error Ended(pid_t pid, const observe::Recorder& recorder) {
  if (recorder.ended() && recorder.ended()->code != Code::kNotFound) return *recorder.ended();
  return {Code::kNotFound, "process " + std::to_string(pid) + " has ended", ""};
}

// Samples for one refresh. False: it is time to leave.
bool SampleForAWhile(observe::Recorder& recorder, const Screen* screen) {
  const Deadline refresh = Deadline::AfterNs(kRefreshNs);
  while (!refresh.passed()) {
    if (Interrupted() || !recorder.Sample() || (screen != nullptr && screen->QuitPressed())) return false;
    recorder.Wait();
  }
  return true;
}

Result<int> RunLive(observe::Recorder& recorder, const flame::View& view, pid_t pid) {
  {
    const Screen screen;
    while (SampleForAWhile(recorder, &screen)) {
      Repaint(Format(LatelySeen(recorder), view, Screen::Rows()));
    }
  }
  if (!recorder.is_going()) return Ended(pid, recorder);
  return 0;
}

Result<int> RunTimes(observe::Recorder& recorder, const flame::View& view, pid_t pid, int times) {
  for (int i = 0; i < times; ++i) {
    const bool whole = SampleForAWhile(recorder, nullptr);
    Print((i > 0 ? "\n" : "") + Format(LatelySeen(recorder), view, kRowsWithoutTerminal));
    if (!recorder.is_going()) return Ended(pid, recorder);
    if (!whole) break;
  }
  return 0;
}

// A second at a time by the probingd there; `screen` is null without a terminal.
Result<int> RunElsewhere(const Invocation& invocation, const flame::View& view, const Screen* screen,
                         int times) {
  ASSIGN_OR_RETURN(const double hz, SampleRate(invocation));
  for (int i = 0; screen != nullptr || i < times; ++i) {
    if (Interrupted() || (screen != nullptr && screen->QuitPressed())) break;
    ASSIGN_OR_RETURN(const RemoteProfile taken, TakeRemoteProfile(invocation, 1, hz));
    const Seen seen{taken.profile, 0, kRefreshNs, taken.samples_taken};
    if (screen != nullptr) {
      Repaint(Format(seen, view, Screen::Rows()));
    } else {
      Print((i > 0 ? "\n" : "") + Format(seen, view, kRowsWithoutTerminal));
    }
    if (taken.ended) return Error{Code::kNotFound, invocation.remote_name + " has ended", ""};
  }
  return 0;
}

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const flame::View view, ViewOf(invocation));
  ASSIGN_OR_RETURN(const double times, invocation.GetNumber("--number", 1));
  const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  const bool live = terminal && !invocation.Has("--once") && !invocation.Has("--number");
  if (invocation.endpoint) {
    CatchInterrupts();
    std::optional<Screen> screen;
    if (live) screen.emplace();
    return RunElsewhere(invocation, view, screen ? &*screen : nullptr, static_cast<int>(std::ceil(times)));
  }
  observe::RecorderOptions options;
  options.limits.samples = kKeptSamples;
  options.follow_children = invocation.Has("--subprocesses");
  options.sampler = SamplerOptionsOf(invocation);
  ASSIGN_OR_RETURN(options.hz, SampleRate(invocation));
  CatchInterrupts();
  ASSIGN_OR_RETURN(observe::Recorder recorder, observe::Recorder::Start(*invocation.target, options));
  if (live) return RunLive(recorder, view, *invocation.target);
  return RunTimes(recorder, view, *invocation.target, static_cast<int>(std::ceil(times)));
}

}  // namespace

Command TopCommand() {
  return {
      .name = "top",
      .summary = "Show live which functions take the time",
      .example = "probing -t 1234 top",
      .target = TargetUse::kRequired,
      .options = {{"-r,--rate", "HZ", "samples per second (100, at most 10000; with --subprocesses 1000)"},
                  {"--gil", "", "only threads that hold the GIL"},
                  {"--idle", "", "also threads that wait"},
                  {"--lines", "", "tell the lines of a function apart"},
                  {"--native", "", "also native functions, and threads without Python"},
                  {"--async", "", "by asyncio task instead of event loop; with --idle tasks that wait, too"},
                  {"--subprocesses", "", "its children, too; it needs no Python itself"},
                  {"--once", "", "one table of one second; also what happens without a terminal"},
                  {"-n,--number", "N", "that many tables, one after the other"}},
      .run = Run};
}

}  // namespace probing::cli
