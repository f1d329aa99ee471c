#include "daemon/stuck_ranks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string_view>

#include "backtrace/backtrace.h"
#include "base/file.h"
#include "base/text.h"
#include "process/maps.h"

namespace probing::daemon {
namespace {

constexpr std::uint64_t kMostWakes = 2;  // of a rank that waits; one that goes on wakes with every collective
constexpr double kMostWakesPerSecond =
    3;  // of a rank that is stuck elsewhere, which may look again and again
// Where torch waits for other ranks. A DataLoader's wait for its workers is none of this.
constexpr std::array<std::string_view, 4> kCommunication{"/torch/distributed/", "/torch/autograd/",
                                                         "/torch/nn/parallel/", "/torch/_ops.py"};
constexpr std::array<std::string_view, 3> kNativeNames{"c10d::", "gloo::", "nccl"};

bool ContainsAny(std::string_view text, const auto& words) {
  return std::ranges::any_of(words, [&](auto word) { return text.find(word) != std::string_view::npos; });
}

bool IsInstalled(const std::string& file) {
  return file.starts_with('<') || file.find("/lib/python3") != std::string::npos ||
         file.find("/site-packages/") != std::string::npos ||
         file.find("/dist-packages/") != std::string::npos;
}

bool IsStandardLibrary(const std::string& file) {
  return file.starts_with('<') ||
         (file.find("/lib/python3") != std::string::npos && file.find("-packages/") == std::string::npos);
}

std::string FrameText(const cpython::Frame& frame) {
  return frame.function + " (" + std::string(process::BaseName(frame.file)) + ":" +
         std::to_string(frame.line) + ")";
}

std::string PlaceOf(const std::vector<cpython::Frame>& frames) {
  if (frames.empty()) return "";
  const auto own = std::ranges::find_if(frames, [](const auto& frame) { return !IsInstalled(frame.file); });
  if (own == frames.end() || own == frames.begin()) return FrameText(frames.front());
  return FrameText(*own) + ", below " + FrameText(frames.front());
}

// The last frame before those of the standard library.
bool IsInCommunication(const std::vector<cpython::Frame>& frames) {
  const auto last =
      std::ranges::find_if(frames, [](const auto& frame) { return !IsStandardLibrary(frame.file); });
  return last != frames.end() && ContainsAny(last->file, kCommunication);
}

bool IsInTorch(const std::vector<cpython::Frame>& frames) {
  return !frames.empty() && frames.front().file.find("/torch/") != std::string::npos;
}

bool IsMeeting(const std::vector<cpython::Frame>& frames) {
  return std::ranges::any_of(frames, [](const auto& frame) {
    return frame.function == "init_process_group" && frame.file.find("/torch/") != std::string::npos;
  });
}

std::uint64_t WakesOf(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const Result<std::string> status = ReadFile(folder + "/task/" + std::to_string(pid) + "/status");
  std::string_view rest = status.ok() ? std::string_view(*status) : "";
  constexpr std::string_view kName = "voluntary_ctxt_switches:";
  while (!rest.empty()) {
    const std::string_view line = TakePart(rest, '\n');
    std::uint64_t count = 0;
    if (line.starts_with(kName) && ParseNumber(Trim(line.substr(kName.size()), " \t"), count)) return count;
  }
  return 0;
}

// By the names of C functions, where Python's say nothing: `x.item()` on what a functional collective gave.
bool WaitsInNativeCode(pid_t pid) {
  backtrace::Options options;
  options.selection.tid = pid;
  options.native = true;
  const Result<backtrace::Picture> picture = backtrace::ReadLive(pid, options);
  if (!picture.ok() || picture->threads.empty() || !picture->threads[0].mixed) return false;
  for (const unwind::NativeFrame& frame : picture->threads[0].mixed->native.frames) {
    if (ContainsAny(frame.function->name, kNativeNames)) return true;
  }
  return false;
}

RankLook LookAt(const process::RankProcess& process) {
  RankLook look{.pid = process.pid, .rank = *process.identity.rank, .job = process.identity.job};
  look.wakes = WakesOf(process.pid);
  backtrace::Options options;
  options.selection.tid = process.pid;
  const Result<backtrace::Picture> picture = backtrace::ReadLive(process.pid, options);
  if (!picture.ok() || picture->threads.empty()) return look;
  const backtrace::ShownThread& thread = picture->threads[0];
  const std::vector<cpython::Frame>& frames = thread.python.frames;
  if (frames.empty()) return look;
  const bool sleeps = thread.kernel.state == 'S' || thread.kernel.state == 'D';
  look.has_gil = thread.python.has_gil;
  look.function = frames.front().function + " (" + frames.front().file + ")";
  look.place = PlaceOf(frames);
  look.is_meeting = IsMeeting(frames);
  look.waits = sleeps && (IsInCommunication(frames) || (!look.has_gil && WaitsInNativeCode(process.pid)));
  look.is_busy = !sleeps && IsInTorch(frames);
  return look;
}

// One rank in all looks.
struct Course {
  const RankLook* last = nullptr;
  std::size_t looks = 0;
  bool always_waits = true;
  bool is_elsewhere = true;  // never in torch's communication code
  bool stays = true;         // in one function
  std::uint64_t wakes = 0;
};

std::string Joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : std::string(separator)) + part;
  return text;
}

}  // namespace

RankLooks LookAtRanks(const std::vector<process::RankProcess>& ranks) {
  RankLooks looks;
  for (const process::RankProcess& rank : ranks) {
    if (rank.identity.rank) looks.push_back(LookAt(rank));
  }
  return looks;
}

std::vector<StuckRanks> FindStuckRanks(const std::vector<RankLooks>& looks, double seconds) {
  std::map<std::string, std::map<pid_t, Course>> jobs;
  for (const RankLooks& moment : looks) {
    for (const RankLook& look : moment) {
      Course& course = jobs[look.job][look.pid];
      if (course.last != nullptr) {
        course.wakes += look.wakes - std::min(look.wakes, course.last->wakes);
        course.stays = course.stays && look.function == course.last->function;
      }
      course.always_waits = course.always_waits && look.waits;
      course.is_elsewhere = course.is_elsewhere && !look.waits && !look.is_busy && !look.function.empty();
      course.last = &look;
      ++course.looks;
    }
  }
  std::vector<StuckRanks> found;
  for (const auto& [job, courses] : jobs) {
    std::vector<const RankLook*> stuck;
    std::size_t waiting = 0;
    std::string where;
    for (const auto& [pid, course] : courses) {
      if (course.looks != looks.size()) continue;  // has come or gone meanwhile
      const auto most = static_cast<std::uint64_t>(kMostWakesPerSecond * (seconds + 1));
      if (course.always_waits && course.stays && (course.last->is_meeting || course.wakes <= kMostWakes)) {
        ++waiting;
        where = course.last->place;
      } else if (course.is_elsewhere && course.stays && course.wakes <= most) {
        stuck.push_back(course.last);
      }
    }
    // Every rank is one or the other: else the job goes on.
    if (waiting == 0 || stuck.empty() || waiting + stuck.size() != courses.size()) continue;
    std::ranges::sort(stuck, {}, &RankLook::rank);
    StuckRanks finding{.job = job, .ranks = {}, .pids = {}, .evidence = ""};
    std::vector<std::string> places;
    for (const RankLook* look : stuck) {
      finding.ranks.push_back(look->rank);
      finding.pids.push_back(look->pid);
      places.push_back("rank " + std::to_string(look->rank) + " is in " + look->place +
                       (look->has_gil ? " and holds the GIL" : ""));
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f", seconds);
    finding.evidence = std::to_string(waiting) + " of " + std::to_string(courses.size()) +
                       " ranks wait in torch for the others, in " + where + ", for " + text.data() +
                       " s or longer; " + Joined(places, "; ") + " (seen from outside)";
    found.push_back(std::move(finding));
  }
  return found;
}

}  // namespace probing::daemon
