#include "wire/torch_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "base/text.h"
#include "wire/settings.h"

namespace probing::wire {
namespace {

constexpr std::array<std::string_view, 7> kOptions{"rate",   "backward", "collectives", "nan",
                                                   "census", "modules",  "exprs"};
constexpr std::size_t kRate = 0;
constexpr std::size_t kCensus = 4;
constexpr std::size_t kModules = 5;
constexpr std::size_t kExprs = 6;
constexpr std::size_t kMostText = 4096;

constexpr char kForm[] =
    "it takes off, or on with any of rate=0.05, backward=off, collectives=off, nan=on, census=on, "
    "modules=encoder.*, exprs=loss@train, separated by commas; steps and full instead of on mean none and "
    "all of the steps";

Error Wrong(const std::string& what, const std::string& hint = kForm) {
  return {Code::kUsage, "probing.torch.profiling: " + what, hint};
}

std::string Quoted(std::string_view text) { return "\"" + std::string(text.substr(0, 100)) + "\""; }

std::vector<std::string_view> Items(std::string_view text) {
  std::vector<std::string_view> items;
  while (true) {
    const std::size_t comma = std::min(text.find(','), text.size());
    items.push_back(Trim(text.substr(0, comma), " "));
    if (comma == text.size()) return items;
    text.remove_prefix(comma + 1);
  }
}

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) > 127;
}
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// a.b.c as Python writes names.
bool IsDottedName(std::string_view text) {
  bool at_start = true;
  for (const char c : text) {
    if (c == '.' && !at_start) {
      at_start = true;
    } else if (IsLetter(c) || (IsDigit(c) && !at_start)) {
      at_start = false;
    } else {
      return false;
    }
  }
  return !at_start;
}

bool IsPlace(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return IsDottedName(text);
  const std::string_view line = text.substr(colon + 1);
  return colon > 0 && !line.empty() && line.size() < 8 && std::all_of(line.begin(), line.end(), IsDigit);
}

Result<std::string> CanonicalRate(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double rate = 0;
  const bool is_number = ParseNumber(text, rate);
  if (percent) rate /= 100;
  // Written so that a NaN is outside.
  if (!is_number || !(rate >= 1e-6 && rate <= 1)) {
    return Wrong("rate cannot be " + Quoted(text),
                 "it is the share of the steps whose modules are traced: 1 for all, 0.05 for one in twenty");
  }
  std::array<char, 32> digits;
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), rate);
  return std::string(digits.data(), written.ptr);
}

Result<std::string> CanonicalItem(std::size_t option, std::string_view text) {
  if (option == kRate) return CanonicalRate(text);
  if (option == kModules) {
    const bool fine = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
      return IsLetter(c) || IsDigit(c) || std::string_view(".*?[]!-").find(c) != std::string_view::npos;
    });
    if (fine) return std::string(text);
    return Wrong("modules cannot be " + Quoted(text), "it takes paths like encoder.layers.0 or encoder.*");
  }
  if (option == kExprs) {
    const std::size_t at = std::min(text.find('@'), text.size());
    if (at < text.size() && IsDottedName(text.substr(0, at)) && IsPlace(text.substr(at + 1))) {
      return std::string(text);
    }
    return Wrong("exprs cannot be " + Quoted(text),
                 "it takes NAME@FUNCTION or NAME@FILE.py:LINE, as in loss@train or state.loss@train.py:42");
  }
  for (const std::string_view yes : {"on", "true", "1", "yes"}) {
    if (text == yes) return std::string("on");
  }
  for (const std::string_view no : {"off", "false", "0", "no"}) {
    if (text == no) return std::string("off");
  }
  if (option == kCensus) {
    const bool is_count = !text.empty() && text.size() < 7 && std::all_of(text.begin(), text.end(), IsDigit);
    if (is_count && text.front() != '0') return std::string(text);
    return Wrong("census cannot be " + Quoted(text), "it takes on, off, or 10 for one in ten traced steps");
  }
  return Wrong(std::string(kOptions[option]) + " cannot be " + Quoted(text), "it takes on or off");
}

Error UnknownOption(std::string_view name) {
  const std::string_view nearest = Nearest(name, kOptions);
  return Wrong("there is no option " + Quoted(name),
               nearest.empty() ? kForm : "did you mean " + std::string(nearest) + "?");
}

}  // namespace

Result<std::string> CanonicalTorchSpec(std::string_view text) {
  if (text.size() > kMostText) return Wrong("this is too long");
  const std::vector<std::string_view> items = Items(text);
  std::string_view mode = items[0];
  for (const std::string_view off : {"", "off", "false", "0", "no"}) {
    if (mode != off) continue;
    if (items.size() == 1) return std::string("off");
    return Wrong("off goes alone");
  }
  std::array<std::string, kOptions.size()> values;
  for (const std::string_view yes : {"true", "1", "yes", "full"}) {
    if (mode != yes) continue;
    if (mode == "full") values[kRate] = "1";
    mode = "on";
  }
  if (mode != "on" && mode != "steps") return Wrong("it cannot begin with " + Quoted(mode));

  std::optional<std::size_t> list;  // the option that an item without '=' belongs to
  for (std::size_t i = 1; i < items.size(); ++i) {
    std::string_view item = items[i];
    const std::size_t equals = item.find('=');
    std::size_t option = 0;
    if (equals == std::string_view::npos) {
      if (!list.has_value()) return Wrong("it is not clear what " + Quoted(item) + " means");
      option = *list;
    } else {
      const std::string_view name = Trim(item.substr(0, equals), " ");
      option = static_cast<std::size_t>(std::find(kOptions.begin(), kOptions.end(), name) - kOptions.begin());
      if (option == kOptions.size()) return UnknownOption(name);
      if (!values[option].empty()) return Wrong(std::string(name) + " is there twice");
      item = Trim(item.substr(equals + 1), " ");
      list.reset();
      if (option == kModules || option == kExprs) list = option;
    }
    ASSIGN_OR_RETURN(const std::string value, CanonicalItem(option, item));
    values[option] += values[option].empty() ? value : "," + value;
  }
  if (mode == "steps" && !values[kCensus].empty() && values[kCensus] != "off") {
    return Wrong("census counts at the end of traced steps, and steps traces none", "begin with on");
  }
  std::string canonical(mode);
  for (std::size_t option = 0; option < kOptions.size(); ++option) {
    if (!values[option].empty()) canonical += "," + std::string(kOptions[option]) + "=" + values[option];
  }
  return canonical;
}

}  // namespace probing::wire
