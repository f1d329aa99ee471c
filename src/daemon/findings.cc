#include "daemon/findings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>

namespace probing::daemon {
namespace {

using server::Json;

enum class Where : std::uint8_t {
  kSameJob,
  kSameRanks,  // all ranks of the effect are among those of the cause
};

struct Follows {
  std::string_view cause;   // a rule, or a class
  std::string_view effect;  // the same
  Where where;
};

// In the order of precedence: what follows from the first goes there.
constexpr std::array kFollows{
    Follows{"collective_mismatch", "collective_hang", Where::kSameJob},
    Follows{"collective_mismatch", "hang", Where::kSameJob},
    Follows{"collective_mismatch", "first_death", Where::kSameJob},
    Follows{"first_death", "collective_hang", Where::kSameJob},
    Follows{"first_death", "hang_progress", Where::kSameJob},
    Follows{"first_death", "straggler", Where::kSameJob},
    Follows{"hang_kernel", "hang_deadlock", Where::kSameRanks},
    Follows{"hang_kernel", "hang_gil", Where::kSameRanks},
    Follows{"hang_gil", "collective_hang", Where::kSameRanks},
    Follows{"hang_kernel", "collective_hang", Where::kSameRanks},
    Follows{"hang_deadlock", "collective_hang", Where::kSameRanks},
    Follows{"hang_gil", "hang_progress", Where::kSameJob},
    Follows{"hang_kernel", "hang_progress", Where::kSameJob},
    Follows{"hang_deadlock", "hang_progress", Where::kSameJob},
    Follows{"hang_gil", "straggler", Where::kSameJob},
    Follows{"hang_kernel", "straggler", Where::kSameJob},
    Follows{"hang_deadlock", "straggler", Where::kSameJob},
    Follows{"collective_hang", "hang_progress", Where::kSameJob},
    Follows{"collective_hang", "straggler", Where::kSameJob},
    // A loop that hangs, or collects garbage, wants more of a core than a busy machine gives.
    Follows{"collective_hang", "cpu_contention", Where::kSameJob},
    Follows{"first_death", "cpu_contention", Where::kSameJob},
    Follows{"collective_mismatch", "cpu_contention", Where::kSameJob},
    Follows{"hang", "cpu_contention", Where::kSameJob},
    Follows{"gc_pause", "cpu_contention", Where::kSameRanks},
    Follows{"gc_pause", "straggler", Where::kSameRanks},
    Follows{"slow_checkpoint", "straggler", Where::kSameRanks},
    Follows{"cpu_contention", "straggler", Where::kSameRanks},
    Follows{"data_stall", "straggler", Where::kSameRanks},
    Follows{"collective_hang", "data_stall", Where::kSameJob},
    Follows{"hang", "data_stall", Where::kSameRanks},
    Follows{"first_death", "data_stall", Where::kSameJob},
    Follows{"first_death", "hang", Where::kSameJob},
    Follows{"slow_checkpoint", "data_stall", Where::kSameRanks},
};

bool Is(const Json& finding, std::string_view name) {
  return finding["rule"] == name || finding["class"] == name;
}

bool HasSameRanks(const Json& cause, const Json& effect) {
  const Json& all = cause["ranks"];
  return std::ranges::all_of(effect["ranks"],
                             [&](const Json& rank) { return std::ranges::find(all, rank) != all.end(); });
}

bool DoesFollow(const Json& cause, const Json& effect, const Follows& follows) {
  // Findings about processes outside a job have nothing to do with each other.
  if (!cause["job"].is_string() || cause["job"] != effect["job"]) return false;
  return Is(cause, follows.cause) && Is(effect, follows.effect) &&
         (follows.where == Where::kSameJob || HasSameRanks(cause, effect));
}

// Two rules, or one about two processes of a rank, have found the same thing.
bool IsSame(const Json& first, const Json& second) {
  return first["job"].is_string() && first["job"] == second["job"] && !first["ranks"].empty() &&
         first["class"] == second["class"] && first["ranks"] == second["ranks"];
}

// Puts each effect below its cause.
template <typename Test>
void FoldWhere(std::vector<Json>& findings, const Test& test) {
  for (std::size_t i = 0; i < findings.size(); ++i) {
    for (std::size_t j = findings.size(); j-- > 0;) {
      if (i == j || !test(findings[i], findings[j])) continue;
      Json& also = findings[i]["also"];
      also.push_back({{"class", findings[j]["class"]},
                      {"ranks", findings[j]["ranks"]},
                      {"evidence", findings[j]["evidence"]}});
      if (const auto more = findings[j].find("also"); more != findings[j].end())
        also.insert(also.end(), more->begin(), more->end());
      findings.erase(findings.begin() + static_cast<std::ptrdiff_t>(j));
      if (j < i) --i;
    }
  }
}

std::int64_t BeginOf(const Json& finding) {
  const auto since = finding.find("since_ns");
  return since != finding.end() && since->is_number_integer() ? since->get<std::int64_t>()
                                                              : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

std::vector<Json> FoldFindings(std::vector<Json> findings) {
  FoldWhere(findings, IsSame);
  for (const Follows& follows : kFollows) {
    FoldWhere(findings,
              [&](const Json& cause, const Json& effect) { return DoesFollow(cause, effect, follows); });
  }
  std::ranges::stable_sort(findings, [](const Json& a, const Json& b) {
    const bool a_warns = a["severity"] != "error";
    const bool b_warns = b["severity"] != "error";
    return a_warns != b_warns ? b_warns : BeginOf(a) < BeginOf(b);
  });
  return findings;
}

}  // namespace probing::daemon
