// Field numbers are those of opentelemetry/proto/{logs,metrics,trace,common,resource}/v1/*.proto.
#include "outlet/otlp.h"

#include <string_view>

#include "base/clock.h"
#include "base/protobuf.h"

namespace probing::outlet::otlp {
namespace {

using Proto = ProtobufMessage;

constexpr std::uint64_t kKindInternal = 1;
constexpr std::uint64_t kCumulative = 2;

std::uint64_t Time(std::int64_t ns) { return static_cast<std::uint64_t>(ns); }

Proto AnyValue(const Attribute& attribute) {
  Proto value;
  if (const auto* text = std::get_if<std::string>(&attribute.value)) value.Bytes(1, *text);
  if (const auto* number = std::get_if<std::int64_t>(&attribute.value))
    value.Choice(3, static_cast<std::uint64_t>(*number));
  if (const auto* number = std::get_if<double>(&attribute.value)) value.Double(4, *number);
  return value;
}

void AddAttributes(const Attributes& attributes, int field, Proto& out) {
  for (const Attribute& attribute : attributes) {
    Proto pair;
    pair.Text(1, attribute.name);
    pair.Inside(2, AnyValue(attribute));
    out.Inside(field, pair);
  }
}

Proto ToProto(const LogRecord& record) {
  const bool is_error = record.severity == "error";
  const bool is_warning = record.severity == "warning";
  Proto out;
  out.Fixed64(1, Time(record.time_ns));
  out.Fixed64(11, Time(WallNs()));
  out.Number(2, is_error ? 17 : is_warning ? 13 : 9);
  out.Text(3, is_error ? "ERROR" : is_warning ? "WARN" : "INFO");
  out.Inside(5, AnyValue({"", record.body}));
  AddAttributes(record.attributes, 6, out);
  out.Text(12, record.event_name);
  return out;
}

Proto ToProto(const Metric& metric) {
  Proto point;
  if (metric.is_counter) point.Fixed64(2, Time(metric.start_ns));
  point.Fixed64(3, Time(metric.time_ns));
  point.Double(4, metric.value);
  Proto data;
  data.Inside(1, point);
  if (metric.is_counter) {
    data.Number(2, kCumulative);
    data.Number(3, 1);
  }
  Proto out;
  out.Text(1, metric.name);
  out.Text(2, metric.description);
  out.Text(3, metric.unit);
  out.Inside(metric.is_counter ? 7 : 5, data);
  return out;
}

Proto ToProto(const Span& span) {
  Proto out;
  out.Text(1, span.trace_id);
  out.Text(2, span.id);
  out.Text(4, span.parent_id);
  out.Text(5, span.name);
  out.Number(6, kKindInternal);
  out.Fixed64(7, Time(span.start_ns));
  out.Fixed64(8, Time(span.end_ns));
  AddAttributes(span.attributes, 9, out);
  return out;
}

// All three requests are built alike: resource, scope, items.
template <typename Item>
std::string EncodeGroups(const std::vector<About<Item>>& groups) {
  Proto scope;
  scope.Text(1, "probing");
  scope.Text(2, PROBING_VERSION);
  Proto request;
  for (const About<Item>& group : groups) {
    Proto resource;
    AddAttributes(group.resource, 1, resource);
    Proto scoped;
    scoped.Inside(1, scope);
    for (const Item& item : group.items) scoped.Inside(2, ToProto(item));
    Proto out;
    out.Inside(1, resource);
    out.Inside(2, scoped);
    request.Inside(1, out);
  }
  return request.bytes();
}

// FNV-1a, mixed once more.
std::uint64_t Hash(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = 0xcbf29ce484222325 ^ seed;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  hash = (hash ^ hash >> 33U) * 0xff51afd7ed558ccd;
  return hash ^ hash >> 33U;
}

std::string BytesOf(std::uint64_t number) {
  std::string bytes;
  for (int i = 0; i < 8; ++i, number >>= 8U) bytes += static_cast<char>(number & 0xff);
  if (bytes == std::string(8, '\0')) bytes[0] = 1;
  return bytes;
}

}  // namespace

std::string Encode(const std::vector<About<LogRecord>>& groups) { return EncodeGroups(groups); }
std::string Encode(const std::vector<About<Metric>>& groups) { return EncodeGroups(groups); }
std::string Encode(const std::vector<About<Span>>& groups) { return EncodeGroups(groups); }

std::string TraceId(std::string_view text) { return BytesOf(Hash(text, 1)) + BytesOf(Hash(text, 2)); }
std::string SpanId(std::string_view text) { return BytesOf(Hash(text, 3)); }

}  // namespace probing::outlet::otlp
