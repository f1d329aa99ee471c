// What torch's Flight Recorder says, as rows: of a live process, written by the probe, and of files, by
// probingd.
//
// They borrow their texts.
#pragma once

#include <string>
#include <string_view>

#include "table/flight_recording.h"
#include "table/written_rows.h"

namespace probing::table {

// The ranks of an entry's group, as in [0, 1]; "" when torch does not know.
std::string MembersOf(const FlightRecording& recording, const std::string& group);

PythonCollectiveStartsRow CollectiveStartRow(const FlightEntry& entry, std::string_view members);
PythonCollectivesRow CollectiveRow(const FlightEntry& entry, std::string_view members);
PythonProcessGroupsRow ProcessGroupRow(std::int64_t time_ns, std::string_view name, const FlightGroup& group,
                                       std::string_view members);

}  // namespace probing::table
