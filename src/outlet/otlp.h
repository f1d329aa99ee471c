// Logs, metrics and spans as OpenTelemetry's protocol has them: the messages of opentelemetry-proto 1, which
// travel by HTTP as protocol buffers. All texts are UTF-8: readers refuse a message in which one is not.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace probing::outlet::otlp {

// Behind the URL of a collector.
inline constexpr const char* kLogsPath = "/v1/logs";
inline constexpr const char* kMetricsPath = "/v1/metrics";
inline constexpr const char* kTracesPath = "/v1/traces";
inline constexpr const char* kContentType = "application/x-protobuf";

struct Attribute {
  std::string name;
  std::variant<std::string, std::int64_t, double> value;
};
using Attributes = std::vector<Attribute>;

struct LogRecord {
  std::int64_t time_ns = 0;
  std::string severity;  // error, warning or info
  std::string body;
  std::string event_name;
  Attributes attributes;
};

struct Metric {
  std::string name;
  std::string description;
  std::string unit;         // as UCUM writes it
  bool is_counter = false;  // from start_ns on
  double value = 0;
  std::int64_t start_ns = 0;
  std::int64_t time_ns = 0;
};

struct Span {
  std::string trace_id;   // 16 bytes
  std::string id;         // 8 bytes
  std::string parent_id;  // "" at the top
  std::string name;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  Attributes attributes;
};

// What the items are about, and the items.
template <typename Item>
struct About {
  Attributes resource;
  std::vector<Item> items;
};

// One request each, for everything.
std::string Encode(const std::vector<About<LogRecord>>& groups);
std::string Encode(const std::vector<About<Metric>>& groups);
std::string Encode(const std::vector<About<Span>>& groups);

// Numbers of traces and spans: the same bytes for the same text, never all zero.
std::string TraceId(std::string_view text);
std::string SpanId(std::string_view text);

}  // namespace probing::outlet::otlp
