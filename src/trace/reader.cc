#include "trace/reader.h"

#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"

namespace probing::trace {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLongestToken = 16 << 20;
constexpr int kDeepest = 64;
constexpr std::size_t kLongestList = 1024;  // of "grid", "Input Dims" as text

struct Category {
  std::string_view name;
  std::optional<OpKind> op;
  std::optional<GpuKind> gpu;
};
// Also those of older and of other vendors' profilers, in lower case.
constexpr std::array kCategories{
    Category{"cpu_op", OpKind::kOp, {}},
    Category{"operator", OpKind::kOp, {}},
    Category{"user_annotation", OpKind::kAnnotation, {}},
    Category{"cuda_runtime", OpKind::kRuntime, {}},
    Category{"cuda_driver", OpKind::kRuntime, {}},
    Category{"runtime", OpKind::kRuntime, {}},
    Category{"hip_runtime", OpKind::kRuntime, {}},
    Category{"xpu_runtime", OpKind::kRuntime, {}},
    Category{"mtia_runtime", OpKind::kRuntime, {}},
    Category{"privateuse1_runtime", OpKind::kRuntime, {}},
    Category{"privateuse1_driver", OpKind::kRuntime, {}},
    Category{"python_function", OpKind::kPython, {}},
    Category{"kernel", {}, GpuKind::kKernel},
    Category{"gpu_memcpy", {}, GpuKind::kMemcpy},
    Category{"memcpy", {}, GpuKind::kMemcpy},
    Category{"gpu_memset", {}, GpuKind::kMemset},
    Category{"memset", {}, GpuKind::kMemset},
    Category{"cuda_sync", {}, GpuKind::kSync},
    Category{"gpu_user_annotation", {}, GpuKind::kAnnotation},
};

// "4203669604595.407" microseconds, exactly: a double has no room for nanoseconds since 1970.
std::optional<std::int64_t> Nanoseconds(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.remove_prefix(1);
  const std::size_t dot = text.find('.');
  if (text.find_first_of("eE") != std::string_view::npos) {
    double number = 0;
    if (!ParseNumber(text, number) || !(std::fabs(number) < 9e15)) return std::nullopt;
    return static_cast<std::int64_t>(std::llround(number * 1000)) * (is_negative ? -1 : 1);
  }
  std::int64_t whole = 0;
  if (!ParseNumber(text.substr(0, dot), whole) || whole < 0 || whole > INT64_MAX / 1000 - 1)
    return std::nullopt;
  std::int64_t thousandths = 0;
  std::string_view rest = dot == std::string_view::npos ? "" : text.substr(dot + 1);
  for (int i = 0; i < 3; ++i)
    thousandths = thousandths * 10 + (static_cast<std::size_t>(i) < rest.size() ? rest[i] - '0' : 0);
  if (rest.size() > 3 && rest[3] >= '5') ++thousandths;
  return (whole * 1000 + thousandths) * (is_negative ? -1 : 1);
}

// A number or a text of the file.
struct Scalar {
  std::string_view text;
  bool is_number = false;

  std::int64_t Int() const {
    std::int64_t number = kNoNumber;
    if (ParseNumber(text, number)) return number;
    double real = 0;
    if (ParseNumber(text, real) && std::fabs(real) < 9e18) return static_cast<std::int64_t>(real);
    return text.starts_with("0x") && ParseNumber(text.substr(2), number, 16) ? number : kNoNumber;
  }
};

// One element of "traceEvents", while it is being read.
struct Pending {
  char phase = 0;
  std::string category, name, thread_label;
  std::string shapes, dtypes, stack, grid, block, hierarchy;
  std::optional<std::int64_t> start_ns, duration_ns;
  std::int64_t thread = kNoNumber, id = kNoNumber, correlation = kNoNumber, sequence = kNoNumber;
  std::int64_t device = kNoNumber, stream = kNoNumber, bytes = kNoNumber;
};

// A collective's kernel is named after the library that made it.
bool IsCommunication(std::string_view name) {
  const std::string lower = LowerCase(name.substr(0, 256));
  for (const std::string_view library : {"nccl", "rccl", "hccl", "mscclkernel", "nvshmem"}) {
    if (lower.find(library) != std::string::npos) return true;
  }
  return false;
}

class Handler : public nlohmann::json_sax<Json> {
 public:
  Handler(ByteSource& source, std::size_t most_events) : source_(source), most_events_(most_events) {}

  bool null() override { return Take({"null"}); }
  bool boolean(bool value) override { return Take({value ? "true" : "false"}); }
  bool number_integer(std::int64_t value) override { return Take({std::to_string(value), true}); }
  bool number_unsigned(std::uint64_t value) override { return Take({std::to_string(value), true}); }
  bool number_float(double, const std::string& text) override { return Take({text, true}); }
  bool string(std::string& text) override { return Take({text}); }
  bool binary(Json::binary_t&) override { return false; }

  bool start_object(std::size_t) override { return Open('{'); }
  bool end_object() override { return Close('}'); }
  bool start_array(std::size_t) override { return Open('['); }
  bool end_array() override { return Close(']'); }

  bool key(std::string& text) override {
    Progress();
    if (depth_ == kTopDepth) top_key_ = text;
    if (depth_ == kTopDepth + 1) top_child_key_ = text;
    if (InEvent() && depth_ == event_depth_ + 1) key_ = text;
    if (InEvent() && depth_ == event_depth_ + 2) argument_ = text;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    error_position_ = position;
    return false;
  }

  // Where the bytes of the token that is being read began.
  bool TokenIsTooLong() const { return source_.position() - token_start_ > kLongestToken; }

  Result<ReadTrace> Finish(bool is_whole) {
    std::string problem;
    if (!is_whole) problem = Problem();
    const bool has_events = !events_.ops.empty() || !events_.gpu.empty();
    if (!problem.empty() && !(has_events && ended_early_))
      return Error{Code::kFailed, "it is no trace that can be read: " + problem,
                   "a trace is what torch.profiler's export_chrome_trace() writes"};
    if (!has_events)
      return Error{Code::kFailed, "it is JSON without events of torch.profiler",
                   "a trace is what torch.profiler's export_chrome_trace() writes"};
    if (events_.lost > 0) {
      problem += (problem.empty() ? "" : "; ") + std::to_string(events_.lost) +
                 " of its events are left out: no more than " + std::to_string(most_events_) +
                 " are read (probing.trace.events)";
    }
    return ReadTrace{std::move(events_), std::move(problem)};
  }

 private:
  static constexpr int kTopDepth = 1;

  void Progress() { token_start_ = source_.position(); }
  bool InEvent() const { return event_depth_ > 0 && depth_ > event_depth_; }
  bool InArguments() const { return InEvent() && depth_ > event_depth_ + 1 && key_ == "args"; }

  std::string Problem() {
    if (!source_.error().empty()) {
      ended_early_ = true;
      return source_.error();
    }
    if (too_deep_) return "its values are more than " + std::to_string(kDeepest) + " levels deep";
    if (TokenIsTooLong()) return "it has a text of more than 16 MB";
    ended_early_ = !source_.HasMore();
    return (ended_early_ ? "it ends too early, at byte " : "it is not JSON at byte ") +
           std::to_string(error_position_);
  }

  bool Open(char bracket) {
    Progress();
    if (depth_ >= kDeepest) {
      too_deep_ = true;
      return false;
    }
    AddToList(std::string_view(&bracket, 1), true);
    const bool is_list = bracket == '[';
    if (event_depth_ == 0 && is_list && (depth_ == 0 || (depth_ == kTopDepth && top_key_ == "traceEvents")))
      event_depth_ = depth_ + 1;
    else if (event_depth_ > 0 && depth_ == event_depth_ && !is_list)
      pending_ = Pending();
    ++depth_;
    return true;
  }

  bool Close(char bracket) {
    Progress();
    --depth_;
    if (event_depth_ > 0 && depth_ == event_depth_ && bracket == '}') EndEvent();
    if (event_depth_ > 0 && depth_ == event_depth_ - 1) event_depth_ = -1;  // there is one list of events
    AddToList(std::string_view(&bracket, 1), false);
    return true;
  }

  bool Take(const Scalar& value) {
    Progress();
    if (!InEvent()) {
      TakeOutside(value);
    } else if (depth_ == event_depth_ + 1) {
      TakeField(value);
    } else if (InArguments() && depth_ == event_depth_ + 2) {
      TakeArgument(value);
    } else {
      AddToList(value.text, true);
    }
    return true;
  }

  void TakeOutside(const Scalar& value) {
    if (depth_ == kTopDepth && top_key_ == "baseTimeNanoseconds") {
      const std::int64_t base = value.Int();
      if (base > 0 && base < INT64_MAX / 2) events_.base_ns = base;
    }
    if (depth_ == kTopDepth && top_key_ == "host_name") events_.host = std::string(value.text.substr(0, 256));
    if (depth_ == kTopDepth + 1 && top_key_ == "distributedInfo" && top_child_key_ == "rank" &&
        value.Int() >= 0)
      events_.rank = value.Int();
  }

  void TakeField(const Scalar& value) {
    if (key_ == "ph") pending_.phase = value.text.empty() ? '\0' : value.text[0];
    if (key_ == "cat") pending_.category = LowerCase(value.text);
    if (key_ == "name") pending_.name = std::string(value.text);
    if (key_ == "tid") pending_.thread = value.Int();
    if (key_ == "ts") pending_.start_ns = Nanoseconds(value.text);
    if (key_ == "dur") pending_.duration_ns = Nanoseconds(value.text);
  }

  void TakeArgument(const Scalar& value) {
    const std::string_view name = argument_;
    if (name == "External id" || name == "external id") pending_.id = value.Int();
    if (name == "correlation") pending_.correlation = value.Int();
    if (name == "Sequence number") pending_.sequence = value.Int();
    if (name == "device") pending_.device = value.Int();
    if (name == "stream") pending_.stream = value.Int();
    if (name == "bytes" || name == "Bytes" || name == "size") pending_.bytes = value.Int();
    if (name == "name") pending_.thread_label = std::string(value.text.substr(0, 256));
    if (name == "Call stack") pending_.stack = std::string(value.text);
    if (name == "Module Hierarchy") pending_.hierarchy = std::string(value.text);
    if (std::string* const list = ListOf(name)) *list = std::string(value.text.substr(0, kLongestList));
  }

  std::string* ListOf(std::string_view name) {
    if (name == "grid") return &pending_.grid;
    if (name == "block") return &pending_.block;
    if (name == "Input Dims" || name == "Input dims") return &pending_.shapes;
    if (name == "Input type") return &pending_.dtypes;
    return nullptr;
  }

  // A list within the arguments becomes text again: [[64, 128], []].
  void AddToList(std::string_view text, bool is_element) {
    if (!InArguments()) return;
    std::string* const list = ListOf(argument_);
    if (list == nullptr || list->size() > kLongestList) return;
    if (is_element && !list->empty() && list->back() != '[') *list += ", ";
    *list += text.substr(0, kLongestList);
  }

  void EndEvent() {
    if (pending_.phase == 'M' && pending_.name == "thread_name" && events_.thread_names.size() < kMostThreads)
      events_.thread_names.try_emplace(pending_.thread, events_.texts.Keep(pending_.thread_label));
    if (pending_.phase == 'i' && pending_.name == "[memory]") AddMemory();
    if (pending_.phase != 'X') return;
    const auto* const category = std::ranges::find(kCategories, pending_.category, &Category::name);
    if (category == kCategories.end()) return;
    if (!HasRoom() || !pending_.start_ns || !pending_.duration_ns || *pending_.duration_ns < 0 ||
        pending_.thread == kNoNumber) {
      ++events_.lost;
      return;
    }
    category->op ? AddOp(*category->op) : AddGpuEvent(*category->gpu);
  }

  bool HasRoom() const {
    return events_.ops.size() + events_.gpu.size() + events_.memory.size() < most_events_;
  }

  void AddMemory() {
    if (!pending_.start_ns || pending_.bytes == kNoNumber) return;
    if (HasRoom())
      events_.memory.push_back({*pending_.start_ns, pending_.thread, pending_.bytes});
    else
      ++events_.lost;
  }

  void AddOp(OpKind kind) {
    Texts& texts = events_.texts;
    events_.ops.push_back(
        {.start_ns = *pending_.start_ns,
         .duration_ns = *pending_.duration_ns,
         .id = kind == OpKind::kRuntime || kind == OpKind::kPython ? kNoNumber : pending_.id,
         .correlation = pending_.correlation,
         .sequence = pending_.sequence,
         .thread = pending_.thread,
         .name = texts.Keep(pending_.name),
         .shapes = texts.Keep(pending_.shapes),
         .dtypes = texts.Keep(pending_.dtypes),
         .stack = texts.Keep(pending_.stack),
         .hierarchy = texts.Keep(pending_.hierarchy),
         .kind = kind});
  }

  void AddGpuEvent(GpuKind kind) {
    Texts& texts = events_.texts;
    events_.gpu.push_back({.start_ns = *pending_.start_ns,
                           .duration_ns = *pending_.duration_ns,
                           .correlation = pending_.correlation,
                           .op_id = pending_.id,
                           .device = pending_.device,
                           .stream = pending_.stream == kNoNumber ? pending_.thread : pending_.stream,
                           .bytes = pending_.bytes,
                           .name = texts.Keep(pending_.name),
                           .grid = texts.Keep(pending_.grid),
                           .block = texts.Keep(pending_.block),
                           .kind = kind,
                           .is_communication = kind == GpuKind::kKernel && IsCommunication(pending_.name)});
  }

  static constexpr std::size_t kMostThreads = 100'000;

  ByteSource& source_;
  const std::size_t most_events_;
  Events events_;
  Pending pending_;
  int depth_ = 0;        // open brackets
  int event_depth_ = 0;  // of the list of events; 0: not yet, −1: no more
  std::string top_key_, top_child_key_, key_, argument_;
  std::uint64_t token_start_ = 0;
  std::size_t error_position_ = 0;
  bool too_deep_ = false;
  bool ended_early_ = false;
};

// What the parser takes its characters from.
class Characters {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  Characters() = default;
  Characters(ByteSource& source, const Handler& handler) : source_(&source), handler_(&handler) {}
  char operator*() const { return source_->Peek(); }
  Characters& operator++() {
    source_->Skip();
    return *this;
  }
  // Only ever compared with the end.
  bool operator==(const Characters&) const { return handler_->TokenIsTooLong() || !source_->HasMore(); }

 private:
  ByteSource* source_ = nullptr;
  const Handler* handler_ = nullptr;
};

}  // namespace

Texts::Id Texts::Keep(std::string_view text) {
  text = text.substr(0, kLongest);
  if (const auto known = ids_.find(text); known != ids_.end()) return known->second;
  if (bytes_ + text.size() > kMostBytes || texts_.size() == UINT32_MAX) {
    ++lost_;
    return 0;
  }
  bytes_ += text.size();
  const auto id = static_cast<Id>(texts_.size());
  ids_.emplace(texts_.emplace_back(text), id);
  return id;
}

const char* NameOf(OpKind kind) {
  constexpr std::array kNames{"op", "annotation", "runtime", "python"};
  return kNames.at(static_cast<std::size_t>(kind));
}

const char* NameOf(GpuKind kind) {
  constexpr std::array kNames{"kernel", "memcpy", "memset", "sync", "annotation"};
  return kNames.at(static_cast<std::size_t>(kind));
}

Result<ReadTrace> Read(ByteSource& source, std::size_t most_events) {
  Handler handler(source, most_events);
  const bool is_whole = Json::sax_parse(Characters(source, handler), Characters(), &handler);
  return handler.Finish(is_whole && source.error().empty());
}

}  // namespace probing::trace
