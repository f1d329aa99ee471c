// Facts about targets that go to systems of metrics: to Prometheus, which asks, and to OpenTelemetry.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <span>

#include "daemon/api.h"

namespace probing::daemon {

struct Metric {
  const char* name;
  const char* type;  // gauge or counter
  const char* help;
  const char* otlp_name = "";  // as OpenTelemetry's conventions have it; "": not told there
  const char* unit = "";       // as UCUM writes it
};

std::span<const Metric> TargetMetrics();

// A row for each live target: pid, rank, name, then a value for each of TargetMetrics(), NULL where there is
// none.
inline constexpr std::size_t kMetricLabels = 3;
boost::asio::awaitable<Result<server::Json>> TargetMetricRows(Daemon& daemon);

}  // namespace probing::daemon
