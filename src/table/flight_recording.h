// What torch's Flight Recorder says: the last collectives of one rank, with their group and number.
//
// The same reader serves a live process (its dump function, called by the probe) and the files that torch
// writes when a job hangs (`_dump_RANK`, pickles or JSON of versions 2.0 to 2.x). Untrusted: what makes no
// sense is left out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/data_tree.h"

namespace probing::table {

struct FlightGroup {
  std::string description;          // as in TENSOR_MODEL_PARALLEL_GROUP; "" when the job gave it none
  std::vector<std::int64_t> ranks;  // empty when the recorder does not know, as on gloo
  // The last collective that this rank has entered, and the last that is over, also of those that are no
  // longer recorded.
  std::optional<std::int64_t> enqueued, completed;
};

struct FlightEntry {
  std::int64_t record_id = 0;
  std::string group;  // its name, as in "0"
  std::string description;
  std::int64_t seq = 0;  // of its kind in its group: of collectives, or of sends and receives
  bool is_p2p = false;
  std::string op;  // as Python calls it: all_reduce, all_gather_into_tensor, send
  std::string backend;
  std::int64_t bytes = 0;  // of the input
  std::string dtype;       // of the input, as in float32
  std::string sizes;       // of the input, as in [[64, 128]]
  bool is_over = false;
  std::string state;                                    // scheduled, started, completed
  std::int64_t created_ns = 0;                          // since the epoch: the rank has arrived
  std::optional<std::int64_t> started_ns, finished_ns;  // where torch knows
  std::optional<double> duration_ms;
  std::string place;  // the innermost frame that is not torch's own; "" when there are no frames
};

struct FlightRecording {
  std::string version;
  std::map<std::string, FlightGroup> groups;  // by name
  std::vector<FlightEntry> entries;           // in the order they were recorded
};

// Nothing when the tree is no recording.
std::optional<FlightRecording> ReadFlightRecording(const DataTree& tree);

// "[0, 1, 2]", as torch writes it.
std::string RanksText(const std::vector<std::int64_t>& ranks);

}  // namespace probing::table
