#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/clock.h"
#include "cli/output.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kProgressNs = 100'000'000;

}  // namespace

std::string Decimal(double number, int digits) {
  std::array<char, 48> text;
  std::snprintf(text.data(), text.size(), "%.*f", digits, number);
  return text.data();
}

ProgressBar::ProgressBar(double seconds) : seconds_(seconds), visible_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (visible_) DrawAside("\r\x1b[K");
}

void ProgressBar::Show(std::int64_t started_ns, const std::string& what) {
  const std::int64_t now_ns = MonotonicNs();
  if (!visible_ || now_ns < next_ns_) return;
  next_ns_ = now_ns + kProgressNs;
  const double done = std::max(0.0, static_cast<double>(now_ns - started_ns) / 1e9);
  const auto filled = static_cast<std::size_t>(std::clamp(30 * done / seconds_, 0.0, 30.0));
  std::string line = "\r\x1b[Krecording [" + std::string(filled, '=') + std::string(30 - filled, ' ') + "] ";
  line += Decimal(std::min(done, seconds_), 1) + "/" + Decimal(seconds_, 0) + " s, " + what;
  DrawAside(line + "; ^C ends it");
}

}  // namespace probing::cli
