// Retention: what is too old or too much goes.
#pragma once

#include <cstdint>
#include <set>
#include <string>

namespace probing::history {

struct RetentionLimits {
  std::int64_t days = 0;  // this many before today stay
  std::int64_t max_bytes = 0;
};

// Touches files with names of ours only, and folders that are empty then.
class Retention {
 public:
  explicit Retention(std::string directory) : directory_(std::move(directory)) {}

  // Removes days that are over, then the oldest files until the rest fits. What was merged into
  // another file goes at the second look: a query may have begun with the old ones.
  void Prune(const RetentionLimits& limits, std::int64_t now_ns);

 private:
  void Remove(const std::string& path);

  std::string directory_;
  std::set<std::string> superseded_;  // at the last look
};

}  // namespace probing::history
