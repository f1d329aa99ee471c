#include <string_view>

#include "flame/escape.h"
#include "flame/formats.h"
#include "flame/page.h"

// The flame graph of the web page, as Vite has built it (CMakeLists.txt).
extern "C" const char probing_flame_script[], probing_flame_script_end[];
extern "C" const char probing_flame_style[], probing_flame_style_end[];

namespace probing::flame {
namespace {

constexpr std::size_t kMostSamples = 200'000;  // with more the order in time is left out

std::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

template <typename List, typename Text>
std::string Joined(const List& list, Text text) {
  std::string joined = "[";
  for (const auto& each : list) joined += (joined.size() == 1 ? "" : ",") + text(each);
  return joined + "]";
}

const char* Flag(bool flag) { return flag ? "true" : "false"; }

std::string Decimal(std::int64_t number) { return std::to_string(number); }

std::string KindName(FrameKind kind) { return kind == FrameKind::kNative ? "\"native\"" : "\"python\""; }

// As POST profile answers, in the same words.
std::string SamplesJson(const Profile& profile, const View& view) {
  std::string start = "[", weight = "[", thread = "[", stack = "[", on_cpu = "[", has_gil = "[";
  const bool has_order = profile.samples().size() <= kMostSamples;
  const std::int64_t origin_ns = profile.samples().empty() ? 0 : profile.samples().front().start_ns;
  const char* comma = "";
  const auto add = [&](const Sample& sample) {
    if (has_order) start += comma + std::to_string(sample.start_ns - origin_ns);
    weight += comma + std::to_string(sample.ticks);
    thread += comma + std::to_string(sample.thread);
    stack += comma + std::to_string(sample.stack);
    on_cpu += std::string(comma) + Flag(sample.on_cpu);
    has_gil += std::string(comma) + Flag(sample.has_gil);
    comma = ",";
  };
  if (has_order) {
    for (const Sample& sample : profile.samples()) {
      if (sample.stack != kEmptyStack) add(sample);
    }
  } else {
    View all = view;  // the page chooses
    all.ranks.clear();
    for (const FoldedStack& folded : Fold(profile, all)) {
      const bool is_idle = folded.idle_ticks == folded.ticks;
      add({.ticks = static_cast<std::uint32_t>(folded.ticks),
           .thread = folded.thread,
           .stack = folded.stack,
           .on_cpu = !is_idle});
    }
  }
  return "{\"start_ns\":" + start + "],\"weight\":" + weight + "],\"thread\":" + thread +
         "],\"stack\":" + stack + "],\"on_cpu\":" + on_cpu + "],\"has_gil\":" + has_gil + "]}";
}

std::string ProfileJson(const Profile& profile, const View& view) {
  std::vector<StackId> stacks(profile.stacks().size());
  for (StackId i = 0; i < stacks.size(); ++i) stacks[i] = i;
  const char* shown = view.shown == Shown::kAll ? "all" : view.shown == Shown::kGil ? "gil" : "active";
  return "{\"title\":" + ScriptText(view.title) + ",\"shown\":\"" + shown +
         "\",\"by_thread\":" + Flag(view.by_thread) + ",\"by_process\":" + Flag(view.by_process) +
         ",\"by_line\":" + Flag(view.by_line) + ",\"by_rank\":" + Flag(view.by_rank) +
         ",\"ranks\":" + Joined(view.ranks, Decimal) + ",\"against\":" + Joined(view.against, Decimal) +
         ",\"period_ns\":" + std::to_string(profile.period_ns()) + ",\n\"threads\":" +
         Joined(profile.threads(),
                [](const Thread& thread) {
                  return "{\"pid\":" + std::to_string(thread.pid) + ",\"tid\":" + std::to_string(thread.tid) +
                         ",\"name\":" + ScriptText(thread.name) +
                         ",\"process\":" + ScriptText(thread.process) +
                         (thread.rank ? ",\"rank\":" + std::to_string(*thread.rank) : "") + "}";
                }) +
         ",\n\"frames\":" +
         Joined(profile.frames(),
                [](const Frame& frame) {
                  return "{\"kind\":" + KindName(frame.kind) + ",\"func\":" + ScriptText(frame.function) +
                         ",\"file\":" + ScriptText(frame.file) + ",\"lineno\":" + std::to_string(frame.line) +
                         ",\"first_line\":" + std::to_string(frame.first_line) + "}";
                }) +
         ",\n\"stacks\":" +
         Joined(stacks,
                [&](StackId stack) {
                  return Joined(profile.FramesOf(stack), [](FrameId frame) { return std::to_string(frame); });
                }) +
         ",\n\"samples\":" + SamplesJson(profile, view) + "}";
}

}  // namespace

std::string FillPage(std::string_view page, const std::string& title, const std::string& data) {
  constexpr std::string_view kTitle = "PROBING_TITLE";
  constexpr std::string_view kData = "PROBING_DATA";
  const std::string shown_title = XmlText(title);
  std::string html;
  for (std::string_view rest = page; !rest.empty();) {
    const std::size_t next = rest.find("PROBING_");
    html += rest.substr(0, next);
    if (next == std::string_view::npos) break;
    rest.remove_prefix(next);
    html += rest.starts_with(kTitle) ? shown_title : data;
    rest.remove_prefix(rest.starts_with(kTitle) ? kTitle.size() : kData.size());
  }
  return html;
}

std::string ToHtml(const Profile& profile, const View& view) {
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>";
  html += XmlText(view.title) + "</title>\n<style>";
  html += Between(probing_flame_style, probing_flame_style_end);
  html += "</style>\n</head>\n<body>\n<script type=\"application/json\" id=\"data\">";
  html += ProfileJson(profile, view);
  html += "</script>\n<script>";
  html += Between(probing_flame_script, probing_flame_script_end);
  return html + "</script>\n</body>\n</html>\n";
}

}  // namespace probing::flame
