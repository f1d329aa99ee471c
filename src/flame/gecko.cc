// The processed profile format of the Firefox Profiler (profiler.firefox.com), version 48: newer ones share
// their tables between threads, and the profiler upgrades what it reads.
//
// Consecutive equal samples are one in a Profile. They become two here, the first and the last, as the
// profiler draws a sample up to half of the way to the next one.

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "flame/escape.h"
#include "flame/formats.h"

namespace probing::flame {
namespace {

constexpr int kProcessedVersion = 48;
constexpr int kGeckoVersion = 30;

// Positions in "categories". The profiler leaves out samples of the category that is called Idle unless
// asked.
enum Category : int { kIdle = 0, kPython = 1, kNative = 2, kOther = 3 };
constexpr char kCategories[] = R"([{"name":"Idle","color":"transparent","subcategories":["Other"]},)"
                               R"({"name":"Python","color":"orange","subcategories":["Other"]},)"
                               R"({"name":"Native","color":"blue","subcategories":["Other"]},)"
                               R"({"name":"Other","color":"grey","subcategories":["Other"]}])";

Category CategoryOf(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::kPython:
      return kPython;
    case FrameKind::kNative:
      return kNative;
    case FrameKind::kGroup:
      break;
  }
  return kOther;
}

// One column of a table.
class Column {
 public:
  void Add(const std::string& json) { text_ += (text_.empty() ? "" : ",") + json; }
  void Add(std::int64_t number) { Add(std::to_string(number)); }
  std::string ToJson() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
};

std::string Milliseconds(std::int64_t ns) {
  const std::string digits = std::to_string(ns % 1'000'000 + 1'000'000);
  return std::to_string(ns / 1'000'000) + "." + digits.substr(1);
}

std::string Repeated(const char* value, std::size_t count) {
  Column column;
  for (std::size_t i = 0; i < count; ++i) column.Add(value);
  return column.ToJson();
}

// The tables of one thread, with what its samples refer to and no more.
class ThreadTables {
 public:
  ThreadTables(const Profile& profile, std::int64_t origin_ns) : profile_(profile), origin_ns_(origin_ns) {}

  void Add(const Sample& sample) {
    const bool idle = !sample.on_cpu && !sample.has_gil;
    const std::size_t stack = StackOf(sample.stack, idle);
    const std::int64_t period_ns = profile_.period_ns();
    AddRow(stack, sample.start_ns, 1, sample.on_cpu);
    const auto more = static_cast<std::int64_t>(sample.ticks) - 1;
    if (more > 0) AddRow(stack, sample.start_ns + more * period_ns, more, sample.on_cpu);
  }

  std::string ToJson(const Thread& thread) {
    const bool is_main = thread.pid == thread.tid;
    std::string json = R"({"processType":"default","processName":)" + JsonText(ProcessName(thread)) +
                       R"(,"processStartupTime":0,"processShutdownTime":null,"registerTime":0,)"
                       R"("unregisterTime":null,"pausedRanges":[],"name":)" +
                       JsonText(thread.name) + ",\"isMainThread\":" + (is_main ? "true" : "false") +
                       ",\"pid\":\"" + std::to_string(thread.pid) +
                       "\",\"tid\":" + std::to_string(thread.tid);
    json += ",\n\"samples\":{\"length\":" + std::to_string(rows_) +
            ",\"weightType\":\"samples\",\"stack\":" + stack_of_row_.ToJson() +
            ",\"time\":" + time_.ToJson() + ",\"weight\":" + weight_.ToJson() +
            ",\"threadCPUDelta\":" + cpu_.ToJson() + "}";
    json +=
        R"(,"markers":{"length":0,"category":[],"data":[],"endTime":[],"name":[],"phase":[],"startTime":[]})";
    json += ",\n\"stackTable\":{\"length\":" + std::to_string(stacks_.size()) +
            ",\"frame\":" + frame_of_stack_.ToJson() + ",\"prefix\":" + prefix_.ToJson() +
            ",\"category\":" + category_of_stack_.ToJson() +
            ",\"subcategory\":" + Repeated("0", stacks_.size()) + "}";
    json += ",\n\"frameTable\":{\"length\":" + std::to_string(frames_.size()) +
            ",\"func\":" + function_of_frame_.ToJson() + ",\"line\":" + line_.ToJson() +
            ",\"category\":" + category_of_frame_.ToJson();
    for (const char* zero : {"subcategory", "inlineDepth"})
      json += ",\"" + std::string(zero) + "\":" + Repeated("0", frames_.size());
    json += ",\"address\":" + Repeated("-1", frames_.size());
    for (const char* unknown : {"nativeSymbol", "innerWindowID", "implementation", "column"})
      json += ",\"" + std::string(unknown) + "\":" + Repeated("null", frames_.size());
    json += "},\n\"funcTable\":{\"length\":" + std::to_string(functions_.size()) +
            ",\"name\":" + name_.ToJson() + ",\"fileName\":" + file_.ToJson() +
            ",\"lineNumber\":" + first_line_.ToJson() + ",\"resource\":" + Repeated("-1", functions_.size());
    for (const char* no : {"isJS", "relevantForJS"})
      json += ",\"" + std::string(no) + "\":" + Repeated("false", functions_.size());
    json += ",\"columnNumber\":" + Repeated("null", functions_.size());
    json += R"(},"resourceTable":{"length":0,"lib":[],"name":[],"host":[],"type":[]},)"
            R"("nativeSymbols":{"length":0,"libIndex":[],"address":[],"name":[],"functionSize":[]},)";
    return json + "\n\"stringArray\":" + strings_.ToJson() + "}";
  }

 private:
  void AddRow(std::size_t stack, std::int64_t start_ns, std::int64_t ticks, bool on_cpu) {
    ++rows_;
    stack_of_row_.Add(static_cast<std::int64_t>(stack));
    time_.Add(Milliseconds(start_ns - origin_ns_));
    weight_.Add(ticks);
    cpu_.Add(on_cpu ? ticks * profile_.period_ns() / 1000 : 0);  // since the row before, in microseconds
  }

  // A thread that waits has a stack of its own: a category is one of stacks, not of samples.
  std::size_t StackOf(StackId stack, bool idle) {
    const auto known = stacks_.find({stack, idle});
    if (known != stacks_.end()) return known->second;
    std::vector<StackId> path;  // innermost first
    for (StackId at = stack; at != kEmptyStack && !stacks_.contains({at, idle});
         at = profile_.stacks()[at].caller) {
      path.push_back(at);
    }
    for (auto at = path.rbegin(); at != path.rend(); ++at) {
      const StackNode& node = profile_.stacks()[*at];
      const Frame& frame = profile_.frames()[node.frame];
      prefix_.Add(node.caller == kEmptyStack ? "null" : std::to_string(stacks_.at({node.caller, idle})));
      frame_of_stack_.Add(static_cast<std::int64_t>(FrameOf(node.frame)));
      category_of_stack_.Add(idle ? kIdle : CategoryOf(frame));
      stacks_.emplace(std::pair(*at, idle), stacks_.size());
    }
    return stacks_.at({stack, idle});
  }

  std::size_t FrameOf(FrameId id) {
    const auto [known, is_new] = frames_.try_emplace(id, frames_.size());
    if (is_new) {
      const Frame& frame = profile_.frames()[id];
      function_of_frame_.Add(static_cast<std::int64_t>(FunctionOf(frame)));
      line_.Add(frame.line > 0 ? std::to_string(frame.line) : "null");
      category_of_frame_.Add(CategoryOf(frame));
    }
    return known->second;
  }

  std::size_t FunctionOf(const Frame& frame) {
    const auto [known, is_new] =
        functions_.try_emplace({frame.function, frame.file, frame.first_line}, functions_.size());
    if (is_new) {
      name_.Add(static_cast<std::int64_t>(StringOf(frame.function)));
      file_.Add(frame.file.empty() ? "null" : std::to_string(StringOf(frame.file)));
      first_line_.Add(frame.first_line > 0 ? std::to_string(frame.first_line) : "null");
    }
    return known->second;
  }

  std::size_t StringOf(const std::string& text) {
    const auto [known, is_new] = string_ids_.try_emplace(text, string_ids_.size());
    if (is_new) strings_.Add(JsonText(text));
    return known->second;
  }

  const Profile& profile_;
  std::int64_t origin_ns_;
  std::size_t rows_ = 0;
  Column stack_of_row_, time_, weight_, cpu_;
  std::map<std::pair<StackId, bool>, std::size_t> stacks_;
  Column prefix_, frame_of_stack_, category_of_stack_;
  std::unordered_map<FrameId, std::size_t> frames_;
  Column function_of_frame_, line_, category_of_frame_;
  std::map<std::tuple<std::string, std::string, int>, std::size_t> functions_;
  Column name_, file_, first_line_;
  std::unordered_map<std::string, std::size_t> string_ids_;
  Column strings_;
};

}  // namespace

std::string ToGecko(const Profile& profile, const View& view) {
  const std::int64_t origin_ns = profile.samples().empty() ? 0 : profile.samples().front().start_ns;
  std::map<ThreadId, ThreadTables> tables;
  for (const Sample& sample : profile.samples()) {
    if (!IsShown(view, profile, sample) || sample.stack == kEmptyStack) continue;
    tables.try_emplace(sample.thread, profile, origin_ns).first->second.Add(sample);
  }
  std::string threads;
  for (auto& [thread, table] : tables)
    threads += (threads.empty() ? "" : ",\n") + table.ToJson(profile.threads()[thread]);
  return "{\"meta\":{\"interval\":" + Milliseconds(profile.period_ns()) +
         ",\"startTime\":0,\"processType\":0,\"product\":" + JsonText(view.title) +
         ",\"stackwalk\":1,\"version\":" + std::to_string(kGeckoVersion) +
         ",\"preprocessedProfileVersion\":" + std::to_string(kProcessedVersion) +
         ",\"symbolicated\":true,\"markerSchema\":[],\"categories\":" + kCategories +
         ",\"sampleUnits\":{\"time\":\"ms\",\"eventDelay\":\"ms\",\"threadCPUDelta\":\"\u00b5s\"}},\n"
         "\"libs\":[],\"threads\":[\n" +
         threads + "\n]}\n";
}

}  // namespace probing::flame
