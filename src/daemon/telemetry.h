// Metrics of targets, and their spans and training steps, as OpenTelemetry has them.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <vector>

#include "daemon/api.h"
#include "outlet/otlp.h"

namespace probing::daemon {

// This probingd, for what is not about one process.
outlet::otlp::Attributes OwnResource();

boost::asio::awaitable<Result<std::vector<outlet::otlp::About<outlet::otlp::Metric>>>> MetricsForOtlp(
    Daemon& daemon);

// Those that became known as a whole in this window of wall time; windows that follow each other have every
// span once. A span is told when the outermost span around it has ended, or when the one around it goes on
// for a minute: it is the top of a trace then. Of more than kMostSpans the rest is counted in `left_out`.
inline constexpr std::size_t kMostSpans = 4000;
struct SpansForOtlp {
  std::vector<outlet::otlp::About<outlet::otlp::Span>> groups;
  std::uint64_t count = 0;
  std::uint64_t left_out = 0;
};
boost::asio::awaitable<Result<SpansForOtlp>> SpansOf(Daemon& daemon, std::int64_t from_ns,
                                                     std::int64_t until_ns);

}  // namespace probing::daemon
