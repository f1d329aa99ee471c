// One thing that is wrong, as others are told about it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace probing::outlet {

using Texts = std::vector<std::pair<std::string, std::string>>;

struct Alert {
  // What it is: two alerts with the same labels are the same alert, whatever the rest says by now.
  Texts labels;
  Texts annotations;
  std::string severity;       // error, warning or info
  std::int64_t begun_ns = 0;  // wall time
  std::int64_t ended_ns = 0;  // 0: it lasts

  // "" when there is none.
  std::string Label(std::string_view name) const { return Find(labels, name); }
  std::string Annotation(std::string_view name) const { return Find(annotations, name); }

 private:
  static std::string Find(const Texts& texts, std::string_view name) {
    for (const auto& [key, value] : texts) {
      if (key == name) return value;
    }
    return {};
  }
};

}  // namespace probing::outlet
