// What torch's Flight Recorder says, as rows: of a live process, written by the probe, and of files, by
// probingd.
//
// Cells are in the order of the tables' columns. They borrow their texts.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "ring/cell.h"
#include "table/flight_recording.h"

namespace probing::table {

inline constexpr std::string_view kCollectiveStartsTable = "python.collective_starts";
inline constexpr std::string_view kCollectivesTable = "python.collectives";
inline constexpr std::string_view kProcessGroupsTable = "python.process_groups";

// The ranks of an entry's group, as in [0, 1]; "" when torch does not know.
std::string MembersOf(const FlightRecording& recording, const std::string& group);

std::array<ring::Cell, 10> CollectiveStartRow(const FlightEntry& entry, std::string_view members);
std::array<ring::Cell, 15> CollectiveRow(const FlightEntry& entry, std::string_view members);
std::array<ring::Cell, 6> ProcessGroupRow(std::int64_t time_ns, std::string_view name,
                                          const FlightGroup& group, std::string_view members);

}  // namespace probing::table
