// How far a recording is, for people.
#pragma once

#include <cstdint>
#include <string>

namespace probing::cli {

// One line on stderr that is drawn over and gone at the end; nothing when that is no terminal.
class ProgressBar {
 public:
  explicit ProgressBar(double seconds);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `what` was recorded so far: "120 samples". Draws now and then only.
  void Show(std::int64_t started_ns, const std::string& what);

 private:
  double seconds_;
  bool visible_;
  std::int64_t next_ns_ = 0;
};

// "1.5"
std::string Decimal(double number, int digits);

}  // namespace probing::cli
