#include "table/flight_rows.h"

namespace probing::table {
namespace {

constexpr std::string_view kSource = "flight_recorder";

StringCell TextOrNull(std::string_view text) { return text.empty() ? StringCell() : StringCell(text); }

std::optional<double> Milliseconds(std::optional<std::int64_t> from, std::optional<std::int64_t> to) {
  if (!from || !to) return std::nullopt;
  return static_cast<double>(*to - *from) / 1e6;
}

}  // namespace

std::string MembersOf(const FlightRecording& recording, const std::string& group) {
  const auto found = recording.groups.find(group);
  return found == recording.groups.end() || found->second.ranks.empty() ? "" : RanksText(found->second.ranks);
}

PythonCollectiveStartsRow CollectiveStartRow(const FlightEntry& entry, std::string_view members) {
  return {.timestamp = entry.created_ns,
          .seq = entry.seq,
          .process_group = entry.group,
          .op = entry.op,
          .bytes = entry.bytes,
          .step = {},
          .dtype = TextOrNull(entry.dtype),
          .p2p = entry.is_p2p,
          .members = TextOrNull(members),
          .source = kSource};
}

PythonCollectivesRow CollectiveRow(const FlightEntry& entry, std::string_view members) {
  const std::optional<std::int64_t> began = entry.started_ns ? entry.started_ns : entry.created_ns;
  return {.timestamp = entry.created_ns,
          .seq = entry.seq,
          .process_group = entry.group,
          .op = entry.op,
          .bytes = entry.bytes,
          .dtype = TextOrNull(entry.dtype),
          .state = "completed",
          .wait_ms = Milliseconds(entry.created_ns, entry.started_ns),
          .duration_ms = entry.duration_ms ? entry.duration_ms : Milliseconds(began, entry.finished_ns),
          .step = {},
          .p2p = entry.is_p2p,
          .members = TextOrNull(members),
          .description = TextOrNull(entry.description),
          .sizes = TextOrNull(entry.sizes),
          .source = kSource};
}

PythonProcessGroupsRow ProcessGroupRow(std::int64_t time_ns, std::string_view name, const FlightGroup& group,
                                       std::string_view members) {
  return {.timestamp = time_ns,
          .process_group = name,
          .description = TextOrNull(group.description),
          .members = TextOrNull(members),
          .enqueued = group.enqueued,
          .completed = group.completed};
}

}  // namespace probing::table
