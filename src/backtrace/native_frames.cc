#include "backtrace/native_frames.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/visible.h"
#include "unwind/demangle.h"
#include "unwind/plumbing.h"

namespace probing::backtrace {
namespace {

constexpr std::size_t kFewestNameBytes = 24;

std::string Hex(std::uint64_t value) {
  std::array<char, 24> text;
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return text.data();
}

// By the symbol table; without a symbol, by the debug information.
const std::string& NameOf(const unwind::NativeFrame& frame) {
  const std::string& symbol = frame.function->name;
  return symbol.empty() && !frame.places.empty() ? frame.places.back().function : symbol;
}

// What was inlined into the frame, innermost first, without CPython's own plumbing.
std::vector<const unwind::SourcePlace*> InlinedInto(const unwind::NativeFrame& frame) {
  std::vector<const unwind::SourcePlace*> inlined;
  for (std::size_t i = 0; i + 1 < frame.places.size(); ++i) {
    if (!unwind::IsPlumbing(frame.places[i].function)) inlined.push_back(&frame.places[i]);
  }
  return inlined;
}

std::string Fit(const std::string& name, std::size_t columns, std::size_t used) {
  const std::string shown = name.empty() ? "??" : Visible(name);
  if (columns == 0) return shown;
  return unwind::FitName(shown, std::max(kFewestNameBytes, columns > used ? columns - used : 0));
}

std::string FormatLine(const unwind::SourcePlace& place) {
  return place.file.empty() ? ""
                            : "        at " + Visible(place.file) + ":" + std::to_string(place.line) + "\n";
}

// The frame, below those that were inlined into it, each with its line.
std::string FormatWithLines(const unwind::NativeFrame& frame, std::size_t columns) {
  constexpr std::string_view kInlined = "    inlined ";
  std::string text;
  for (const unwind::SourcePlace* place : InlinedInto(frame)) {
    text +=
        std::string(kInlined) + Fit(place->function, columns, kInlined.size()) + "\n" + FormatLine(*place);
  }
  text += FormatNativeFrame(frame, columns);
  if (!frame.places.empty()) text += FormatLine(frame.places.back());
  return text;
}

// `file` is that of the source where it is known, of the library otherwise; `module` always the library.
nlohmann::ordered_json NativeToJson(const unwind::NativeFrame& frame, const unwind::SourcePlace* place,
                                    const std::string& name) {
  const std::string& module = frame.function->module;
  nlohmann::ordered_json one = {{"func", nullptr}, {"file", nullptr}, {"lineno", nullptr}};
  if (!name.empty()) one["func"] = name;
  if (!module.empty()) one["file"] = module;
  if (place != nullptr && !place->file.empty()) {
    one["file"] = place->file;
    one["lineno"] = place->line;
  }
  one["frame_type"] = "Native";
  one["module"] = nullptr;
  if (!module.empty()) one["module"] = module;
  one["address"] = Hex(frame.address);
  one["offset"] = module.empty() ? 0 : frame.offset();
  one["inlined"] = false;
  return one;
}

bool IsPython(const unwind::MixedFrame& frame) { return frame.kind == unwind::MixedFrame::Kind::kPython; }

}  // namespace

std::string FormatNativeFrame(const unwind::NativeFrame& frame, std::size_t columns) {
  const unwind::Function& function = *frame.function;
  const std::string before = "    " + Hex(frame.address) + " ";
  std::string after = function.module.empty() ? " (no file)" : " (" + Visible(function.module) + ")";
  if (!function.module.empty()) after = "+" + Hex(frame.offset()) + after;
  return before + Fit(NameOf(frame), columns, before.size() + after.size()) + after + "\n";
}

std::string FormatMixed(const unwind::MixedReading& reading, std::size_t columns,
                        const std::function<std::string(const cpython::Frame&)>& format_python) {
  std::string text;
  if (!reading.stack.merged)
    text += "    (Python and native frames do not fit together: one after the other)\n";
  for (const unwind::MixedFrame& frame : reading.stack.frames) {
    text += IsPython(frame) ? format_python(reading.python.frames[frame.index])
                            : FormatWithLines(reading.native.frames[frame.index], columns);
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
    for (const unwind::SourcePlace* place : InlinedInto(native)) {
      frames.push_back(NativeToJson(native, place, place->function));
      frames.back()["inlined"] = true;
    }
    frames.push_back(
        NativeToJson(native, native.places.empty() ? nullptr : &native.places.back(), NameOf(native)));
  }
  return frames;
}

}  // namespace probing::backtrace
