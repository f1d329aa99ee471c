// The answer of NCCL's RAS port to VERBOSE STATUS: communicators, and what each of their ranks does.
//
// Since NCCL 2.28 it is JSON and has every rank; before, it is text for people that names the ranks which
// differ from most others. Untrusted: an answer that contradicts itself or has other types is an error that
// names the place, and nothing of it is used.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace probing::observe {

inline constexpr std::size_t kMaxRasBytes = 16U << 20;
inline constexpr std::size_t kMaxRasCommunicators = 100'000;

struct RasRank {
  std::int64_t comm_rank = 0;
  std::string node;  // an IP address
  std::optional<std::int64_t> process;
  std::optional<std::int64_t> gpu;
  std::string status;  // see nccl.ras_ranks
  std::string error;   // "" when all is well
  std::map<std::string, std::int64_t> counts;
  std::string op;  // in which it is furthest behind
  std::optional<std::int64_t> launched, behind;
};

struct RasCommunicator {
  std::string hash;  // "0x…"; "" when the text names its group only
  std::string label;
  std::int64_t size = 0;
  std::optional<std::int64_t> answered, missing;
  std::string status, errors;
  std::vector<RasRank> ranks;
};

struct RasStatus {
  std::string nccl_version;
  std::int64_t timeouts = 0;
  std::vector<RasCommunicator> communicators;
};

// Either format; what it is can be seen from the first byte.
Result<RasStatus> ParseRasStatus(std::string_view answer);

// By format; ParseRasStatus() calls them.
Result<RasStatus> ParseRasJson(std::string_view answer);
Result<RasStatus> ParseRasText(std::string_view answer);

}  // namespace probing::observe
