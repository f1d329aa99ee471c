#include "observe/stalls/trail.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "flame/view.h"
#include "observe/stalls/user_frame.h"

namespace probing::observe {
namespace {

constexpr std::int64_t kMillisecondNs = 1'000'000;
constexpr std::int64_t kBeforeNs = 2'000'000'000;
constexpr std::int64_t kMomentNs = 100 * kMillisecondNs;
constexpr std::int64_t kBetweenLooksNs = 25 * kMillisecondNs;
constexpr std::size_t kMaxParts = 40;
constexpr std::size_t kMaxFramesInText = 100;
constexpr std::size_t kMaxWaits = 1500;  // looks whose waits are remembered, per thread
constexpr std::size_t kMaxEnded = 256;   // threads that have ended, and may still be asked about
constexpr int kUsualTimes = 20;          // so many usual ones are compared with

std::int64_t ToMilliseconds(std::int64_t ns) { return ns / kMillisecondNs * kMillisecondNs; }

std::int64_t Overlap(std::int64_t a_from, std::int64_t a_to, std::int64_t b_from, std::int64_t b_to) {
  return std::max<std::int64_t>(0, std::min(a_to, b_to) - std::max(a_from, b_from));
}

std::string Percent(std::int64_t part, std::int64_t whole) {
  return std::to_string(whole <= 0 ? 0 : std::min<std::int64_t>(100, 100 * part / whole)) + " %";
}

}  // namespace

Trail::Trail(std::size_t max_bytes)
    : profile_(kMillisecondNs,
               {.samples = max_bytes / 2 / sizeof(flame::Sample), .table_bytes = max_bytes / 2}) {}

void Trail::Add(pid_t pid, pid_t tid, const std::string& name, const Look& look,
                const std::vector<flame::Frame>* frames) {
  const auto [entry, is_new] = threads_.try_emplace(tid);
  Thread& thread = entry->second;
  const std::int64_t now_ns = ToMilliseconds(look.at_ns);
  if (is_new) {
    thread.id = profile_.AddThread({pid, tid, name, ""});
    thread.seen_ns = now_ns - kMillisecondNs;
    // It began after the look before, and so did all of its waiting.
    if (looked_ns_ != 0 && look.at_ns > looked_ns_) thread.waited.emplace_back(looked_ns_, 0);
  }
  if (look.at_ns > now_looked_ns_) {
    looked_ns_ = now_looked_ns_;
    now_looked_ns_ = look.at_ns;
  }
  AddWait(thread, look);
  const std::int64_t ticks = (now_ns - thread.seen_ns) / kMillisecondNs;
  if (ticks <= 0) return;
  const flame::Sample sample{thread.seen_ns, static_cast<std::uint32_t>(ticks), thread.id, 0, look.on_cpu,
                             look.has_gil};
  thread.seen_ns = now_ns;
  if (frames != nullptr) {
    profile_.AddSample(sample, *frames);
  } else {
    profile_.RepeatSample(sample);
  }
}

void Trail::AddWait(Thread& thread, const Look& look) {
  if (look.waited_ns == 0 || (!thread.waited.empty() && thread.waited.back().second == look.waited_ns))
    return;
  thread.waited.emplace_back(look.at_ns, look.waited_ns);
  if (thread.waited.size() > kMaxWaits) thread.waited.pop_front();
}

void Trail::AddWait(pid_t tid, const Look& look) {
  if (const auto found = threads_.find(tid); found != threads_.end()) AddWait(found->second, look);
}

void Trail::End(pid_t tid) {
  const auto found = threads_.find(tid);
  if (found == threads_.end()) return;
  profile_.EndThread(found->second.id);
  ended_.emplace_back(tid, std::move(found->second));
  if (ended_.size() > kMaxEnded) ended_.pop_front();
  threads_.erase(found);
}

const Trail::Thread* Trail::Find(pid_t tid) const {
  if (const auto found = threads_.find(tid); found != threads_.end()) return &found->second;
  for (auto entry = ended_.rbegin(); entry != ended_.rend(); ++entry) {
    // Its number in the profile may be another thread's meanwhile.
    if (entry->first == tid && profile_.threads()[entry->second.id].tid == tid) return &entry->second;
  }
  return nullptr;
}

std::vector<Trail::Run> Trail::RunsOf(flame::ThreadId thread, std::int64_t from_ns,
                                      std::int64_t to_ns) const {
  std::vector<Run> runs;
  for (const flame::Sample& sample : profile_.samples()) {
    if (sample.thread != thread || sample.stack == flame::kEmptyStack) continue;
    const std::int64_t end_ns = sample.start_ns + profile_.DurationNs(sample);
    if (sample.start_ns >= to_ns || end_ns <= from_ns) continue;
    runs.push_back({&sample, std::max(from_ns, sample.start_ns), std::min(to_ns, end_ns)});
  }
  return runs;
}

std::vector<const flame::Frame*> Trail::FramesOf(flame::StackId stack) const {
  std::vector<const flame::Frame*> frames;
  for (const flame::FrameId id : profile_.FramesOf(stack)) frames.push_back(&profile_.frames()[id]);
  return frames;
}

std::string Trail::TextOf(flame::StackId stack) const {
  const std::vector<const flame::Frame*> frames = FramesOf(stack);
  const std::size_t first = frames.size() > kMaxFramesInText ? frames.size() - kMaxFramesInText : 0;
  std::string text = first > 0 ? "…" : "";
  for (std::size_t i = first; i < frames.size(); ++i) {
    if (!text.empty()) text += ';';
    std::string label = flame::Label({.by_line = true, .title = ""}, *frames[i]);
    std::replace(label.begin(), label.end(), ';', ',');
    text += label;
  }
  return text;
}

std::int64_t Trail::WaitedBetween(const Thread& thread, std::int64_t from_ns, std::int64_t to_ns) const {
  std::int64_t first_ns = -1, last_ns = -1;
  for (const auto& [at_ns, waited_ns] : thread.waited) {
    if (at_ns <= from_ns || first_ns < 0) first_ns = waited_ns;
    if (at_ns <= to_ns + kBetweenLooksNs) last_ns = waited_ns;
  }
  return first_ns < 0 || last_ns < first_ns ? 0 : std::min(last_ns - first_ns, to_ns - from_ns);
}

void Trail::ExplainLine(Stall& stall, flame::ThreadId thread, const std::vector<Run>& runs,
                        std::int64_t usual_ns) const {
  using Place = std::tuple<std::string, std::string, int>;  // file, function, line
  struct Found {
    std::int64_t ns = 0;
    flame::StackId stack = 0;
    std::int64_t stack_ns = 0;
    std::size_t frame = 0;
  };
  std::map<Place, Found> places;
  const auto add = [&](const Run& run, bool subtract) {
    const std::vector<const flame::Frame*> frames = FramesOf(run.sample->stack);
    const auto at = FindUserFrame(frames);
    if (!at) return;
    const flame::Frame& frame = *frames[*at];
    const std::int64_t ns = run.to_ns - run.from_ns;
    if (subtract) {
      const auto found = places.find({frame.file, frame.function, frame.line});
      if (found != places.end()) found->second.ns -= ns / kUsualTimes;
      return;
    }
    Found& found = places[{frame.file, frame.function, frame.line}];
    found.ns += ns;
    if (ns <= found.stack_ns) return;
    found.stack = run.sample->stack;
    found.stack_ns = ns;
    found.frame = *at;
  };
  for (const Run& run : runs) add(run, false);
  if (usual_ns > 0) {
    const std::int64_t from_ns = stall.start_ns - kUsualTimes * usual_ns;
    for (const Run& run : RunsOf(thread, from_ns, stall.start_ns)) add(run, true);
  }
  const auto most = std::max_element(places.begin(), places.end(),
                                     [](const auto& a, const auto& b) { return a.second.ns < b.second.ns; });
  if (most == places.end()) return;
  stall.line = *FramesOf(most->second.stack)[most->second.frame];
  stall.stack = TextOf(most->second.stack);
}

void Trail::Explain(Stall& stall, std::int64_t usual_ns) const {
  const Thread* const known = Find(stall.tid);
  if (known == nullptr) return;
  const flame::ThreadId thread = known->id;
  stall.thread_name = profile_.threads()[thread].name;
  const std::int64_t to_ns = stall.start_ns + std::max(stall.duration_ns, kMillisecondNs);
  // Of a moment: the last look before it, too; the next one may not have come yet.
  const std::int64_t from_ns = stall.start_ns - (stall.duration_ns == 0 ? kMomentNs : 0);
  const std::vector<Run> runs = RunsOf(thread, from_ns, to_ns);
  stall.looks = static_cast<std::int64_t>(runs.size());
  ExplainLine(stall, thread, runs, usual_ns);
  const std::vector<Run> before = RunsOf(thread, stall.start_ns - kBeforeNs, from_ns);
  if (!before.empty()) stall.before = TextOf(before.back().sample->stack);
  stall.cpu_wait_ns = WaitedBetween(*known, stall.start_ns, to_ns);
  const std::string why = Why(stall, runs);
  if (stall.why.empty()) {
    stall.why = why;
  } else if (!why.empty()) {
    stall.why += "; " + why;
  }
  const auto add_parts = [&](const std::vector<Run>& list, std::size_t at_most) {
    const std::size_t first = list.size() > at_most ? list.size() - at_most : 0;
    for (std::size_t i = first; i < list.size(); ++i) {
      stall.parts.push_back(
          {list[i].from_ns - stall.start_ns, list[i].to_ns - list[i].from_ns, TextOf(list[i].sample->stack)});
    }
  };
  add_parts(before, kMaxParts / 4);
  add_parts(runs, kMaxParts * 3 / 4);
}

std::string Trail::Why(const Stall& stall, const std::vector<Run>& runs) const {
  std::int64_t on_cpu_ns = 0, seen_ns = 0;
  for (const Run& run : runs) {
    seen_ns += run.to_ns - run.from_ns;
    if (run.sample->on_cpu) on_cpu_ns += run.to_ns - run.from_ns;
  }
  if (seen_ns == 0) return "";
  if (stall.cpu_wait_ns * 2 > stall.duration_ns)
    return "waited for a CPU, " + Percent(stall.cpu_wait_ns, stall.duration_ns) + " of the time";
  // Another thread that had the GIL for most of it?
  std::map<std::pair<flame::ThreadId, flame::StackId>, std::int64_t> holders;
  const std::int64_t to_ns = stall.start_ns + stall.duration_ns;
  for (const flame::Sample& sample : profile_.samples()) {
    if (!sample.has_gil || sample.stack == flame::kEmptyStack) continue;
    if (profile_.threads()[sample.thread].tid == stall.tid) continue;
    const std::int64_t ns =
        Overlap(sample.start_ns, sample.start_ns + profile_.DurationNs(sample), stall.start_ns, to_ns);
    if (ns > 0) holders[{sample.thread, sample.stack}] += ns;
  }
  const auto most = std::max_element(holders.begin(), holders.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != holders.end() && most->second * 2 > seen_ns && on_cpu_ns * 2 < seen_ns) {
    const std::vector<const flame::Frame*> frames = FramesOf(most->first.second);
    const flame::Thread& holder = profile_.threads()[most->first.first];
    const auto at = FindUserFrame(frames);
    return "waited for the GIL, which thread " + std::to_string(holder.tid) + " " + holder.name + " held" +
           (at ? " in " + flame::Label({.by_line = true, .title = ""}, *frames[*at]) : "");
  }
  if (on_cpu_ns * 2 > seen_ns) return "ran on a CPU, " + Percent(on_cpu_ns, seen_ns) + " of the time";
  return "slept or waited, " + Percent(seen_ns - on_cpu_ns, seen_ns) + " of the time";
}

pid_t Trail::BusiestThread(std::int64_t from_ns, std::int64_t to_ns) const {
  std::map<flame::ThreadId, std::int64_t> busy;
  for (const flame::Sample& sample : profile_.samples()) {
    const std::int64_t end_ns = sample.start_ns + profile_.DurationNs(sample);
    const std::int64_t ns = Overlap(sample.start_ns, end_ns, from_ns, to_ns);
    if (ns > 0 && (sample.on_cpu || sample.has_gil)) busy[sample.thread] += ns;
  }
  const auto most = std::max_element(busy.begin(), busy.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == busy.end() ? 0 : profile_.threads()[most->first].tid;
}

}  // namespace probing::observe
