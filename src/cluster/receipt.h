// Which hosts an answer is about, and which are missing in it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace probing::cluster {

struct Receipt {
  std::map<std::string, std::string> asked;  // by address; why there is no answer, "" when there is one
  std::int64_t dropped = 0;                  // rows that the others' probes could not keep
  std::int64_t bytes = 0;                    // that came from them

  bool gathered() const { return !asked.empty(); }
  std::size_t failed() const;

  // {expected, answered, failed: [{node, reason}], dropped, bytes}, in ASCII. This host is one of those
  // expected.
  std::string ToJson() const;
};

}  // namespace probing::cluster
