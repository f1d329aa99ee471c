// Where probingd answers what is wrong (daemon/diagnosis.h says what comes back), and how a finding is
// said in words, by it and by `probing`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace probing::wire {

inline constexpr std::string_view kDiagnoseRoute = "/api/v1/diagnose";

// " rank 1", " ranks 0, 3"; " process 4711" where there are no ranks; "" when it is about nobody.
inline std::string WhoText(const std::vector<std::int64_t>& ranks, const std::vector<std::int64_t>& pids) {
  const std::vector<std::int64_t>& numbers = ranks.empty() ? pids : ranks;
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  if (text.empty()) return "";
  return (ranks.empty() ? " process " : numbers.size() > 1 ? " ranks " : " rank ") + text;
}

}  // namespace probing::wire
