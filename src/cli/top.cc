// probing top: which functions the time goes to, live.

#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "backtrace/backtrace.h"
#include "base/clock.h"
#include "base/source_path.h"
#include "base/visible.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/recording.h"
#include "cli/remote_profile.h"
#include "cli/terminal.h"
#include "cli/top_screen.h"
#include "flame/ranking.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kRefreshNs = 1'000'000'000;
constexpr std::size_t kRowsWithoutTerminal = 30;
constexpr std::size_t kKeptSamples = 100'000;  // the last second of a busy process with many threads
constexpr int kRows = 24, kColumns = 80;       // of a terminal that does not say

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

  // What was typed: a key, or the sequence of one ("\x1b[A"); "" for nothing.
  std::string Key() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    if (typed_.empty() && keys_ && poll(&input, 1, 0) == 1) {
      std::array<char, 64> bytes{};
      const ssize_t n = read(STDIN_FILENO, bytes.data(), bytes.size());
      if (n > 0) typed_.assign(bytes.data(), static_cast<std::size_t>(n));
    }
    std::size_t size = std::min<std::size_t>(1, typed_.size());
    if (typed_.starts_with("\x1b[")) {
      size = 2;
      while (size < typed_.size() && !(typed_[size] >= '@' && typed_[size] <= '~')) ++size;
      size = std::min(size + 1, typed_.size());
    } else if (typed_.starts_with("\x1bO")) {
      size = std::min<std::size_t>(3, typed_.size());
    }
    const std::string key = typed_.substr(0, size);
    typed_.erase(0, size);
    return key;
  }

 private:
  termios before_{};
  bool keys_ = false;
  std::string typed_;  // and not taken yet
};

// What was seen in some time, here or elsewhere.
struct Seen {
  const flame::Profile& profile;
  std::int64_t from_ns = 0;
  std::int64_t to_ns = 0;
  std::uint64_t samples_taken = 0;
};

std::string PlaceOf(const flame::Frame& frame, int line) {
  const std::string file = flame::ShortFile(frame.file);
  return file.empty() || line <= 0 ? file : file + ":" + std::to_string(line);
}

// Where a thread is for the user: in the innermost function of code that is no library's.
std::string WhereIn(const flame::Profile& profile, flame::StackId stack) {
  std::string place;
  for (const flame::FrameId id : profile.FramesOf(stack)) {
    const flame::Frame& frame = profile.frames()[id];
    if (place.empty() || !IsLibraryFile(frame.file))
      place = frame.function + (frame.file.empty() ? "" : " (" + PlaceOf(frame, frame.line) + ")");
  }
  return place;
}

// What the keys have changed, and what was counted since top began.
class Top {
 public:
  explicit Top(flame::View view) : view_(std::move(view)) {}

  // Counts what was seen since the last time, for the columns of seconds.
  void Count(const Seen& seen) {
    const flame::Profile& profile = seen.profile;
    for (const auto& ranked : Rank(profile, view_, seen.from_ns, seen.to_ns).functions) {
      Times& times = times_[KeyOf(ranked.function)];
      times.own += Seconds(profile, ranked.own);
      times.total += Seconds(profile, ranked.total);
    }
  }

  TopPicture Picture(const Seen& seen) const {
    const flame::Profile& profile = seen.profile;
    const flame::Ranking ranking = Rank(profile, view_, seen.from_ns, seen.to_ns + profile.period_ns());
    const double all =
        static_cast<double>(seen.to_ns - seen.from_ns) / static_cast<double>(profile.period_ns());
    const auto share = [all](std::uint64_t ticks) { return all > 0 ? static_cast<double>(ticks) / all : 0; };
    TopPicture picture{.title = view_.title,
                       .gil = share(ranking.with_gil),
                       .on_cpu = share(ranking.on_cpu),
                       .samples = seen.samples_taken,
                       .unreadable = profile.losses().torn + profile.losses().unmerged};
    std::map<std::string, Times> rest = times_;  // what was busy before, and is not now
    for (const auto& ranked : ranking.functions) {
      TopFunction one = FunctionOf(ranked.function);
      one.own = share(ranked.own);
      one.total = share(ranked.total);
      if (const auto times = rest.extract(KeyOf(ranked.function)); !times.empty()) {
        one.own_seconds = times.mapped().own;
        one.total_seconds = times.mapped().total;
      }
      picture.functions.push_back(std::move(one));
    }
    for (const auto& [key, times] : rest) {
      const std::size_t tab = key.find('\t');
      TopFunction one{.own_seconds = times.own, .total_seconds = times.total, .function = key.substr(0, tab)};
      const std::size_t end = key.rfind('\t');
      one.is_library = IsLibraryFile(key.substr(tab + 1, end - tab - 1));
      one.place = flame::ShortFile(key.substr(tab + 1, end - tab - 1));
      if (key.substr(end + 1) != "0") one.place += ":" + key.substr(end + 1);
      picture.functions.push_back(std::move(one));
    }
    SortFunctions(picture.functions, settings.order);
    for (const auto& ranked : ranking.threads) {
      const flame::Thread& thread = profile.threads()[ranked.thread];
      picture.threads.push_back({thread.tid, thread.name, share(ranked.on_cpu), share(ranked.with_gil),
                                 WhereIn(profile, ranked.stack)});
    }
    if (view_.shown == flame::Shown::kGil) picture.filter = "only with the GIL";
    if (view_.shown == flame::Shown::kAll) picture.filter = "also what waits";
    return picture;
  }

  enum class Action : std::uint8_t { kNothing, kRedraw, kQuit };
  Action Press(const std::string& key, std::size_t page_rows) {
    if (key.empty()) return Action::kNothing;
    if (key == "q" || key == "Q") return Action::kQuit;
    if (key >= "1" && key <= "4" && key.size() == 1) {
      settings.order = static_cast<TopOrder>(key[0] - '1');
      return Show(TopPage::kFunctions);
    }
    if (key == "f") return Show(TopPage::kFunctions);
    if (key == "t") return Show(TopPage::kThreads);
    if (key == "a") return Show(TopPage::kTasks);
    if (key == "?" || key == "h")
      return Show(settings.page == TopPage::kHelp ? TopPage::kFunctions : TopPage::kHelp);
    if (key == "g") return Choose(flame::Shown::kGil);
    if (key == "i") return Choose(flame::Shown::kAll);
    if (key == "l") view_.by_line = !view_.by_line;
    if (key == "l" || key == "r") return Forget();
    const bool up = key == "k" || key == "\x1b[A" || key == "\x1bOA";
    const bool down = key == "j" || key == "\x1b[B" || key == "\x1bOB";
    const std::size_t by = key == "\x1b[5~" || key == "\x1b[6~" ? page_rows : 1;
    if (up || key == "\x1b[5~") settings.first -= std::min(settings.first, by);
    if (down || key == "\x1b[6~") settings.first += by;
    return Action::kRedraw;
  }

  TopSettings settings;

 private:
  struct Times {
    double own = 0, total = 0;
  };

  static double Seconds(const flame::Profile& profile, std::uint64_t ticks) {
    return static_cast<double>(ticks) * static_cast<double>(profile.period_ns()) / 1e9;
  }
  static std::string KeyOf(const flame::Frame& frame) {
    return frame.function + "\t" + frame.file + "\t" + std::to_string(frame.line);
  }
  static TopFunction FunctionOf(const flame::Frame& frame) {
    return {.function = frame.function,
            .place = PlaceOf(frame, frame.line),
            .is_library = IsLibraryFile(frame.file)};
  }
  Action Show(TopPage page) {
    settings.page = page;
    settings.first = 0;
    return Action::kRedraw;
  }
  Action Choose(flame::Shown shown) {
    view_.shown = view_.shown == shown ? flame::Shown::kActive : shown;
    return Forget();
  }
  Action Forget() {
    times_.clear();
    return Action::kRedraw;
  }

  flame::View view_;
  std::map<std::string, Times> times_;  // by function, file and line, with tabs between
};

// The last second.
Seen LatelySeen(const observe::Recorder& recorder) {
  const std::int64_t now_ns = MonotonicNs();
  return {recorder.profile(), std::max(recorder.started_ns(), now_ns - kRefreshNs), now_ns,
          recorder.samples_taken()};
}

// The tasks of asyncio, read when somebody looks at them.
void AddTasks(pid_t pid, TopPicture& picture) {
  const auto read = backtrace::ReadLive(pid, {});
  if (!read.ok()) {
    picture.no_tasks = Visible(read.error().message);
    return;
  }
  picture.no_tasks = "no asyncio task is there";
  const auto add = [&picture](const cpython::Task& task) {
    const cpython::Frame* shown = task.frames.empty() ? nullptr : &task.frames.front();
    for (const cpython::Frame& frame : task.frames) {
      if (!IsLibraryFile(frame.file)) {
        shown = &frame;
        break;
      }
    }
    picture.tasks.push_back({task.name.empty() ? backtrace::TaskId(task.id) : task.name,
                             backtrace::StateName(task.state),
                             shown == nullptr ? ""
                                              : shown->function + " (" + std::string(ShortPath(shown->file)) +
                                                    ":" + std::to_string(shown->line) + ")"});
  };
  for (const auto& thread : read->threads) std::ranges::for_each(thread.tasks, add);
  std::ranges::for_each(read->other_tasks, add);
}

TerminalSize SizeOfTerminal() {
  const auto size = FindTerminalSize();
  return size && size->rows > 0 && size->columns > 0 ? *size : TerminalSize{kColumns, kRows};
}

// The whole screen, painted over what was there: nothing scrolls, nothing flickers.
void Repaint(TopPicture picture, Top& top) {
  const TerminalSize size = SizeOfTerminal();
  const std::string text = DrawTop(picture, top.settings, static_cast<std::size_t>(size.columns),
                                   static_cast<std::size_t>(size.rows));
  std::string out = "\x1b[H";
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += (at > 0 ? "\r\n" : "") + text.substr(at, end - at) + "\x1b[K";
    at = end + 1;
  }
  Draw(out + "\x1b[J");
}

// For pipes and --once: as a table, whole names, no band.
std::string Format(const TopPicture& picture) {
  std::string text = Visible(picture.title) + "\nGIL " + SharePercent(picture.gil) + ", on CPU " +
                     SharePercent(picture.on_cpu) + ", " + std::to_string(picture.threads.size()) +
                     " threads, " + std::to_string(picture.samples) + " samples";
  if (picture.unreadable > 0) text += ", " + std::to_string(picture.unreadable) + " unreadable";
  std::vector<std::vector<std::string>> rows;
  for (const TopFunction& one : picture.functions) {
    if (rows.size() >= kRowsWithoutTerminal) break;
    rows.push_back(
        {SharePercent(one.own), SharePercent(one.total), OneLine(one.function, 60), OneLine(one.place, 80)});
  }
  return text + "\n\n" + FormatTable({"  %OWN", "%TOTAL", "FUNCTION", "FILE:LINE"}, rows);
}

Error Ended(pid_t pid, const observe::Recorder& recorder) {
  if (recorder.ended() && recorder.ended()->code != Code::kNotFound) return *recorder.ended();
  return {Code::kNotFound, "process " + std::to_string(pid) + " has ended", ""};
}

Result<int> RunLive(observe::Recorder& recorder, Top& top, pid_t pid) {
  {
    Screen screen;
    std::int64_t counted_ns = recorder.started_ns();
    const auto show = [&] {
      TopPicture picture = top.Picture(LatelySeen(recorder));
      if (top.settings.page == TopPage::kTasks) AddTasks(pid, picture);
      Repaint(std::move(picture), top);
    };
    Deadline refresh = Deadline::AfterNs(kRefreshNs / 4);  // the first picture comes soon
    while (!Interrupted() && recorder.Sample()) {
      const Top::Action action = top.Press(screen.Key(), static_cast<std::size_t>(SizeOfTerminal().rows) / 2);
      if (action == Top::Action::kQuit) break;
      if (refresh.passed()) {
        const std::int64_t now_ns = MonotonicNs();
        top.Count({recorder.profile(), counted_ns, now_ns, 0});
        counted_ns = now_ns;
        refresh = Deadline::AfterNs(kRefreshNs);
        show();
      } else if (action == Top::Action::kRedraw) {
        show();
      }
      recorder.Wait();
    }
  }
  if (!recorder.is_going()) return Ended(pid, recorder);
  return 0;
}

Result<int> RunTimes(observe::Recorder& recorder, const Top& top, pid_t pid, int times) {
  for (int i = 0; i < times; ++i) {
    const Deadline refresh = Deadline::AfterNs(kRefreshNs);
    while (!refresh.passed() && !Interrupted() && recorder.Sample()) recorder.Wait();
    Print((i > 0 ? "\n" : "") + Format(top.Picture(LatelySeen(recorder))));
    if (!recorder.is_going()) return Ended(pid, recorder);
    if (!refresh.passed()) break;
  }
  return 0;
}

// A second at a time by the probingd there; `screen` is null without a terminal.
Result<int> RunElsewhere(const Invocation& invocation, Top& top, Screen* screen, int times) {
  ASSIGN_OR_RETURN(const double hz, SampleRate(invocation));
  for (int i = 0; screen != nullptr || i < times; ++i) {
    if (Interrupted()) break;
    ASSIGN_OR_RETURN(const RemoteProfile taken, TakeRemoteProfile(invocation, 1, hz));
    const Seen seen{taken.profile, 0, kRefreshNs, taken.samples_taken};
    top.Count(seen);
    if (screen == nullptr) {
      Print((i > 0 ? "\n" : "") + Format(top.Picture(seen)));
    } else {
      if (top.Press(screen->Key(), static_cast<std::size_t>(SizeOfTerminal().rows) / 2) == Top::Action::kQuit)
        break;
      TopPicture picture = top.Picture(seen);
      picture.no_tasks = "the tasks of processes elsewhere: `probing -t HOST:PORT backtrace`";
      Repaint(std::move(picture), top);
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
  Top top(view);
  if (invocation.endpoint) {
    CatchInterrupts();
    std::optional<Screen> screen;
    if (live) screen.emplace();
    return RunElsewhere(invocation, top, screen ? &*screen : nullptr, static_cast<int>(std::ceil(times)));
  }
  observe::RecorderOptions options;
  options.limits.samples = kKeptSamples;
  options.follow_children = invocation.Has("--subprocesses");
  options.sampler = SamplerOptionsOf(invocation);
  ASSIGN_OR_RETURN(options.hz, SampleRate(invocation));
  CatchInterrupts();
  ASSIGN_OR_RETURN(observe::Recorder recorder, observe::Recorder::Start(*invocation.target, options));
  if (live) return RunLive(recorder, top, *invocation.target);
  return RunTimes(recorder, top, *invocation.target, static_cast<int>(std::ceil(times)));
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
