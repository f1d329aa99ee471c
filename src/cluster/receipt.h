// Which hosts an answer is about, and which are missing in it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace probing::cluster {

// What one host would send for one table.
struct PlannedShare {
  std::string table;
  std::string node;
  std::optional<std::int64_t> rows;  // nothing: its rows are made when they are asked for
  std::int64_t bytes = 0;
};

struct Receipt {
  std::map<std::string, std::string> asked;  // by address; why there is no answer, "" when there is one
  std::int64_t dropped = 0;                  // rows that the others' probes could not keep
  std::int64_t bytes = 0;                    // that came from them
  std::int64_t epoch = 0;                    // of the members, when the query ended
  std::int64_t epoch_before = 0;             // when they were met first
  std::vector<PlannedShare> plan;            // of an EXPLAIN
  std::set<std::string> restarted;           // answered one question as this, another as somebody new
  std::map<std::string, double> clocks;      // ms that are ahead of ours, of clocks that are clearly wrong

  bool gathered() const { return !asked.empty(); }
  std::size_t failed() const;

  // {expected, answered, failed: [{node, reason}], dropped, bytes, epoch}, in ASCII; {epoch_before,
  // restarted} when the hosts changed meanwhile; {clocks: [{node, ahead_ms}]} when times of a host cannot be
  // compared with ours; {plan: [{table, node, rows, bytes}]} of an EXPLAIN. This host is one of those
  // expected.
  std::string ToJson() const;
};

}  // namespace probing::cluster
