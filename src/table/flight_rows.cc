#include "table/flight_rows.h"

namespace probing::table {
namespace {

constexpr std::string_view kSource = "flight_recorder";

ring::Cell TextOrNull(std::string_view text) {
  return text.empty() ? ring::Cell::Null() : ring::Cell::String(text);
}

ring::Cell NumberOrNull(std::optional<std::int64_t> number) {
  return number ? ring::Cell::Int(*number) : ring::Cell::Null();
}

ring::Cell Milliseconds(std::optional<std::int64_t> from, std::optional<std::int64_t> to) {
  return from && to ? ring::Cell::Double(static_cast<double>(*to - *from) / 1e6) : ring::Cell::Null();
}

}  // namespace

std::string MembersOf(const FlightRecording& recording, const std::string& group) {
  const auto found = recording.groups.find(group);
  return found == recording.groups.end() || found->second.ranks.empty() ? "" : RanksText(found->second.ranks);
}

std::array<ring::Cell, 10> CollectiveStartRow(const FlightEntry& entry, std::string_view members) {
  return {
      ring::Cell::Timestamp(entry.created_ns),
      ring::Cell::Int(entry.seq),
      ring::Cell::String(entry.group),
      ring::Cell::String(entry.op),
      ring::Cell::Int(entry.bytes),
      ring::Cell::Null(),
      TextOrNull(entry.dtype),
      ring::Cell::Bool(entry.is_p2p),
      TextOrNull(members),
      ring::Cell::String(kSource),
  };
}

std::array<ring::Cell, 15> CollectiveRow(const FlightEntry& entry, std::string_view members) {
  const std::optional<std::int64_t> began = entry.started_ns ? entry.started_ns : entry.created_ns;
  return {
      ring::Cell::Timestamp(entry.created_ns),
      ring::Cell::Int(entry.seq),
      ring::Cell::String(entry.group),
      ring::Cell::String(entry.op),
      ring::Cell::Int(entry.bytes),
      TextOrNull(entry.dtype),
      ring::Cell::String("completed"),
      Milliseconds(entry.created_ns, entry.started_ns),
      entry.duration_ms ? ring::Cell::Double(*entry.duration_ms) : Milliseconds(began, entry.finished_ns),
      ring::Cell::Null(),
      ring::Cell::Bool(entry.is_p2p),
      TextOrNull(members),
      TextOrNull(entry.description),
      TextOrNull(entry.sizes),
      ring::Cell::String(kSource),
  };
}

std::array<ring::Cell, 6> ProcessGroupRow(std::int64_t time_ns, std::string_view name,
                                          const FlightGroup& group, std::string_view members) {
  return {
      ring::Cell::Timestamp(time_ns), ring::Cell::String(name),
      TextOrNull(group.description),  TextOrNull(members),
      NumberOrNull(group.enqueued),   NumberOrNull(group.completed),
  };
}

}  // namespace probing::table
