// Where probingd answers what is wrong (daemon/diagnosis.h says what comes back), and how a finding is
// said in words, by it and by `probing`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace probing::wire {

inline constexpr std::string_view kDiagnoseRoute = "/api/v1/diagnose";

// Beside the answer of a query that ranks without a probe are missing from: "ranks".
inline constexpr std::string_view kPartialHeader = "Probing-Partial";

// " rank 1", " ranks 0, 3"; " process 4711" where there are no ranks; "" when it is about nobody.
inline std::string WhoText(const std::vector<std::int64_t>& ranks, const std::vector<std::int64_t>& pids) {
  const std::vector<std::int64_t>& numbers = ranks.empty() ? pids : ranks;
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  if (text.empty()) return "";
  return (ranks.empty() ? " process " : numbers.size() > 1 ? " ranks " : " rank ") + text;
}

// "job night-run: 3 of 4 ranks probed (not: 2)"
inline std::string SeenText(const std::string& job, std::int64_t ranks,
                            const std::vector<std::int64_t>& probed,
                            const std::vector<std::int64_t>& not_probed,
                            const std::vector<std::int64_t>& unknown) {
  constexpr std::size_t kMostNamed = 8;
  const auto list = [](const std::vector<std::int64_t>& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size() && i < kMostNamed; ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
    return numbers.size() > kMostNamed ? text + ", …" : text;
  };
  std::string text = "job " + job + ": " + std::to_string(probed.size()) + " of " + std::to_string(ranks) +
                     (ranks == 1 ? " rank" : " ranks") + " probed";
  if (!not_probed.empty()) text += " (not: " + list(not_probed) + ")";
  if (!unknown.empty()) text += " (not seen: " + list(unknown) + ")";
  return text;
}

}  // namespace probing::wire
