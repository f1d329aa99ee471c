// Where probingd gives an incident file, and how such a file begins (docs/design/incident.md).
#pragma once

#include <cstdint>
#include <string_view>

namespace probing::wire {

// POST {target? | job?, locals?, max_bytes?}: the bytes of the file.
inline constexpr std::string_view kIncidentRoute = "/api/v1/incident";

inline constexpr std::string_view kIncidentMagic = "PROBING INCIDENT";
inline constexpr std::uint32_t kIncidentVersion = 1;

// Behind it comes the index, a JSON object. Numbers are little-endian, as on all machines that we run on.
struct IncidentHead {
  char magic[16];
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t index_bytes;
  std::uint64_t index_sum;
};
static_assert(sizeof(IncidentHead) == 40);

}  // namespace probing::wire
