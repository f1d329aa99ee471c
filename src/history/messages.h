// What probingd and its history worker say to each other, in frames of query/protocol.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace probing::history {

// A memory file with rows; its descriptor comes before, in the same order.
struct RingEntry {
  std::int64_t pid = 0;
  std::optional<std::int64_t> rank;
  std::string host;
  std::string job;
  bool ended = false;  // of the target: nobody writes any more, or hardly

  bool operator==(const RingEntry&) const = default;
};

// To the worker, whenever something has changed: all of it.
struct StateMessage {
  std::string directory;  // "": no files
  std::string host;
  std::int64_t retention_days = 0;
  std::int64_t max_bytes = 0;
  std::int64_t interval_ms = 0;
  // The store that rows go to, too (wire/store_url.h); "" for none.
  std::string store;
  std::string spool;  // the directory in which they wait
  std::int64_t spool_bytes = 0;
  std::int64_t store_interval_ms = 0;
  std::vector<RingEntry> rings;
};

struct TableStatus {
  std::int64_t pid = 0;
  std::string table;
  std::int64_t rows = 0;   // in files
  std::int64_t files = 0;  // written, by this worker or before
  std::int64_t lost = 0;   // rows that were overwritten before they could be written

  bool operator==(const TableStatus&) const = default;
};

// What became of a table's rows on their way to the store, since the worker began.
struct StoreStatus {
  std::string table;
  std::int64_t sent = 0;
  std::int64_t waiting = 0;  // in the spool
  std::int64_t dropped = 0;  // from the spool, because there was no room
  std::int64_t lost = 0;     // overwritten before they could be read
  std::string problem;       // why the last try failed; "" when it did not

  bool operator==(const StoreStatus&) const = default;
};

// From the worker, whenever something has changed: all of it.
struct StatusMessage {
  std::string problem;  // why the last file could not be written; "" when it could
  std::vector<TableStatus> tables;
  std::string store_problem;  // why nothing goes to the store at all
  std::vector<StoreStatus> store;

  bool operator==(const StatusMessage&) const = default;
};

std::string Encode(const StateMessage& message);
std::string Encode(const StatusMessage& message);
bool Decode(std::string_view payload, StateMessage& message);
bool Decode(std::string_view payload, StatusMessage& message);

}  // namespace probing::history
