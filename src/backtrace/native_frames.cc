#include "backtrace/native_frames.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace probing::backtrace {
namespace {

constexpr std::size_t kFewestNameBytes = 24;

std::string Hex(std::uint64_t value) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return text.data();
}

bool IsPython(const unwind::MixedFrame& frame) { return frame.kind == unwind::MixedFrame::Kind::kPython; }

}  // namespace

std::string FormatNativeFrame(const unwind::NativeFrame& frame, std::size_t columns) {
  const unwind::Function& function = *frame.function;
  const std::string before = "    " + Hex(frame.address) + " ";
  std::string after = function.module.empty() ? " (no file)" : " (" + function.module + ")";
  if (!function.module.empty()) after = "+" + Hex(frame.offset()) + after;
  std::string name = function.name.empty() ? "??" : function.name;
  const std::size_t used = before.size() + after.size();
  const std::size_t room = std::max(kFewestNameBytes, columns > used ? columns - used : 0);
  if (name.size() > room) name = name.substr(0, room - 3) + "...";
  return before + name + after + "\n";
}

std::string FormatMixed(const unwind::MixedReading& reading, std::size_t columns,
                        const std::function<std::string(const cpython::Frame&)>& format_python) {
  std::string text;
  if (!reading.stack.merged)
    text += "    (Python and native frames do not fit together: one after the other)\n";
  for (const unwind::MixedFrame& frame : reading.stack.frames) {
    text += IsPython(frame) ? format_python(reading.python.frames[frame.index])
                            : FormatNativeFrame(reading.native.frames[frame.index], columns);
  }
  if (reading.native.end != unwind::StackEnd::kComplete) {
    text += std::string("    (native frames end here: ") + unwind::Describe(reading.native.end) + ")\n";
  }
  return text;
}

nlohmann::ordered_json MixedToJson(
    const unwind::MixedReading& reading,
    const std::function<nlohmann::ordered_json(const cpython::Frame&)>& python_to_json) {
  nlohmann::ordered_json frames = nlohmann::ordered_json::array();
  for (const unwind::MixedFrame& frame : reading.stack.frames) {
    if (IsPython(frame)) {
      frames.push_back(python_to_json(reading.python.frames[frame.index]));
      continue;
    }
    const unwind::NativeFrame& native = reading.native.frames[frame.index];
    nlohmann::ordered_json one = {{"func", nullptr}, {"file", nullptr}, {"lineno", nullptr}};
    if (!native.function->name.empty()) one["func"] = native.function->name;
    if (!native.function->module.empty()) one["file"] = native.function->module;
    one["frame_type"] = "Native";
    one["kind"] = "native";
    one["address"] = Hex(native.address);
    one["offset"] = native.function->module.empty() ? 0 : native.offset();
    frames.push_back(std::move(one));
  }
  return frames;
}

}  // namespace probing::backtrace
