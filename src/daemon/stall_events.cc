#include "daemon/stall_events.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/text.h"
#include "server/router.h"
#include "wire/bounds.h"

namespace probing::daemon {
namespace {

using observe::Stall;
using ring::ColumnType;
using Wanted = std::pair<std::string_view, ColumnType>;

constexpr std::size_t kStepsKept = 200;
constexpr std::size_t kStepsNeeded = 10;  // before anything is usual
constexpr std::size_t kMostEvents = 20;   // of one call
constexpr std::size_t kMaxAttributeBytes = 4096;
constexpr std::size_t kMostArrivals = 10'000;  // of one call

constexpr std::array kStepColumns{Wanted{"timestamp", ColumnType::kTimestamp},
                                  Wanted{"step", ColumnType::kInt64}, Wanted{"duration", ColumnType::kDouble},
                                  Wanted{"phase", ColumnType::kString}};
constexpr std::array kSpanColumns{
    Wanted{"timestamp", ColumnType::kTimestamp}, Wanted{"tid", ColumnType::kInt64},
    Wanted{"name", ColumnType::kString},         Wanted{"kind", ColumnType::kString},
    Wanted{"duration_ms", ColumnType::kDouble},  Wanted{"attributes", ColumnType::kString},
    Wanted{"step", ColumnType::kInt64}};
constexpr std::array kExceptionColumns{Wanted{"timestamp", ColumnType::kTimestamp},
                                       Wanted{"tid", ColumnType::kInt64}, Wanted{"type", ColumnType::kString},
                                       Wanted{"message", ColumnType::kString}};
constexpr std::array kCollectiveColumns{Wanted{"timestamp", ColumnType::kTimestamp},
                                        Wanted{"seq", ColumnType::kInt64},
                                        Wanted{"process_group", ColumnType::kString},
                                        Wanted{"op", ColumnType::kString},
                                        Wanted{"p2p", ColumnType::kBool},
                                        Wanted{"members", ColumnType::kString}};
constexpr std::array kMetricColumns{Wanted{"timestamp", ColumnType::kTimestamp},
                                    Wanted{"name", ColumnType::kString},
                                    Wanted{"value", ColumnType::kDouble}};

std::optional<std::vector<std::uint32_t>> Places(const ring::TableInfo& table,
                                                 std::span<const Wanted> wanted) {
  std::vector<std::uint32_t> places;
  for (const auto& [name, type] : wanted) {
    for (std::uint32_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].name == name && table.columns[i].type == type) places.push_back(i);
    }
  }
  if (places.size() != wanted.size()) return std::nullopt;
  return places;
}

std::int64_t ToMonotonic(std::int64_t wall_ns) { return wall_ns - WallNs() + MonotonicNs(); }

std::string Seconds(double seconds) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), seconds < 1 ? "%.0f ms" : "%.2f s",
                      seconds < 1 ? seconds * 1e3 : seconds);
  return text.data();
}

server::Json Attributes(std::string_view text) {
  if (text.empty() || text.size() > kMaxAttributeBytes || text.front() != '{') return {};
  if (text.find("\"limit\"") == std::string_view::npos && text.find("\"capture\"") == std::string_view::npos)
    return {};
  return server::Json::parse(text, nullptr, false);
}

// "a.b.OutOfMemoryError" is named by its last part, too.
bool IsListed(std::string_view list, std::string_view type) {
  const std::string_view last = type.substr(type.rfind('.') + 1);
  while (!list.empty()) {
    const std::string_view name = TakePart(list, ',');
    if (name == type || name == last) return true;
  }
  return false;
}

Stall Make(std::string_view kind, std::int64_t begin_ns, double seconds, std::string why) {
  Stall stall;
  stall.kind = std::string(kind);
  stall.start_ns = ToMonotonic(begin_ns);
  stall.duration_ns = static_cast<std::int64_t>(seconds * 1e9);
  stall.why = std::move(why);
  return stall;
}

bool IsPlausible(double seconds) { return std::isfinite(seconds) && seconds >= 0 && seconds < 1e7; }

}  // namespace

std::vector<StallEvents::Event> StallEvents::Read(std::span<const std::shared_ptr<const ScopedFd>> rings,
                                                  const Limits& limits) {
  std::erase_if(rings_, [&](const auto& entry) {
    return std::ranges::none_of(rings, [&](const auto& fd) { return fd == entry.second.fd; });
  });
  std::vector<Found> found;
  for (const auto& fd : rings) {
    auto known = rings_.find(fd->get());
    if (known == rings_.end()) {
      Result<ring::Reader> reader = ring::Reader::Open(ScopedFd(fcntl(fd->get(), F_DUPFD_CLOEXEC, 3)));
      if (!reader.ok()) continue;
      known = rings_.emplace(fd->get(), Ring{fd, std::move(*reader), {}, {}}).first;
    }
    for (const ring::TableInfo& table : known->second.reader.Tables())
      ReadTable(known->second, table, limits, found);
  }
  std::vector<Event> events;
  for (Found& one : found) {
    if (one.end_ns >= began_ns_ && events.size() < kMostEvents) events.push_back(std::move(one.event));
  }
  return events;
}

void StallEvents::ReadTable(Ring& ring, const ring::TableInfo& table, const Limits& limits,
                            std::vector<Found>& found) {
  const bool is_step = table.name == "python.torch_steps", is_span = table.name == "python.spans";
  const bool is_exception = table.name == "python.exceptions" && limits.exceptions != "none";
  const bool is_metric = table.name == "python.metrics" && limits.metrics != "none";
  const bool is_collective = table.name == "python.collectives";
  if (!is_step && !is_span && !is_exception && !is_metric && !is_collective) return;
  if (std::exchange(ring.written[table.name], table.counters.written) == table.counters.written) return;
  const std::span<const Wanted> wanted = is_step        ? std::span<const Wanted>(kStepColumns)
                                         : is_span      ? std::span<const Wanted>(kSpanColumns)
                                         : is_exception ? std::span<const Wanted>(kExceptionColumns)
                                         : is_metric    ? std::span<const Wanted>(kMetricColumns)
                                                        : std::span<const Wanted>(kCollectiveColumns);
  const auto places = Places(table, wanted);
  if (!places) return;
  const Result<std::vector<wire::Bound>> bounds = wire::ParseBounds(limits.metrics);
  ring::Scan scan = ring.reader.StartScan(table, {.columns = *places, .cursor = &ring.cursors[table.name]});
  for (ring::Batch batch; scan.Next(&batch);) {
    if (is_collective) {
      AddArrivals(batch);
      continue;
    }
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      const std::int64_t at_ns = batch.Int64s(0)[row];
      const auto text = [&](std::size_t i) { return batch.IsNull(i, row) ? "" : batch.Texts(i)[row]; };
      const auto add = [&](double seconds, Stall stall) {
        found.push_back({at_ns + static_cast<std::int64_t>(seconds * 1e9), {std::move(stall)}});
      };
      if (is_step) {
        if (batch.IsNull(2, row) || !IsPlausible(batch.Doubles(2)[row]) || text(3) != "train") continue;
        AddStep(at_ns, batch.Doubles(2)[row], batch.Int64s(1)[row], limits, found);
      } else if (is_span) {
        const std::string name(text(2));
        const bool is_event = text(3) == "event";
        const double seconds = batch.IsNull(4, row) ? 0 : batch.Doubles(4)[row] / 1e3;
        if (!IsPlausible(seconds)) continue;
        if (!is_event && name == "step" && !batch.IsNull(6, row))
          AddStep(at_ns, seconds, batch.Int64s(6)[row], limits, found);
        const server::Json attributes = Attributes(text(5));
        if (!attributes.is_object()) continue;
        const double limit = !attributes.contains("limit") || !attributes["limit"].is_number()
                                 ? 0
                                 : attributes["limit"].get<double>();
        const bool is_late = !is_event && limit > 0 && seconds > limit;
        const bool is_asked = is_event && attributes.value("capture", server::Json(false)) == true;
        if (!is_late && !is_asked) continue;
        const std::string why =
            is_event ? name
                     : "span " + name + " took " + Seconds(seconds) + ", its limit is " + Seconds(limit);
        const server::Json line = is_event ? attributes.value("log", server::Json()) : server::Json();
        Stall stall = Make(line.is_string() ? "log"
                           : is_event       ? "event"
                                            : "span",
                           at_ns, seconds, line.is_string() ? line.get<std::string>() + ": " + why : why);
        if (!batch.IsNull(1, row)) stall.tid = static_cast<pid_t>(batch.Int64s(1)[row]);
        add(seconds, std::move(stall));
      } else if (is_exception) {
        if (!IsListed(limits.exceptions, text(2))) continue;
        Stall stall =
            Make("exception", at_ns, 0, std::string(text(2)) + ": " + std::string(text(3)).substr(0, 500));
        if (!batch.IsNull(1, row)) stall.tid = static_cast<pid_t>(batch.Int64s(1)[row]);
        add(0, std::move(stall));
      } else if (bounds.ok() && !batch.IsNull(2, row)) {
        for (const wire::Bound& bound : *bounds) {
          const double value = batch.Doubles(2)[row];
          if (bound.name != text(1) || !bound.IsCrossed(value)) continue;
          std::array<char, 32> number{};
          (void)std::snprintf(number.data(), number.size(), "%g", value);
          add(0, Make("metric", at_ns, 0,
                      bound.name + " is " + number.data() + ", its bound " + bound.ToText()));
        }
      }
    }
  }
}

void StallEvents::AddArrivals(const ring::Batch& batch) {
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    const std::int64_t at_ns = batch.Int64s(0)[row];
    const bool is_p2p = !batch.IsNull(4, row) && batch.Bools(4)[row] != 0;
    if (at_ns < began_ns_ || is_p2p || batch.IsNull(1, row) || batch.IsNull(2, row)) continue;
    if (arrivals_.size() >= kMostArrivals) return;
    const auto text = [&](std::size_t i) { return batch.IsNull(i, row) ? "" : batch.Texts(i)[row]; };
    const std::string_view members = text(5);  // "[0, 1, 2]"
    LateRanks::Arrival arrival;
    arrival.group = text(2);
    arrival.op = text(3);
    arrival.seq = batch.Int64s(1)[row];
    arrival.at_ns = at_ns;
    if (!members.empty()) arrival.members = static_cast<std::size_t>(std::ranges::count(members, ',')) + 1;
    arrivals_.push_back(std::move(arrival));
  }
}

void StallEvents::AddStep(std::int64_t begin_ns, double seconds, std::int64_t step, const Limits& limits,
                          std::vector<Found>& found) {
  if (steps_.size() >= kStepsNeeded) {
    std::vector<double> sorted(steps_.begin(), steps_.end());
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    const double usual = *middle;
    if (seconds > usual * limits.step_factor &&
        seconds > usual + static_cast<double>(limits.limit_ns) / 1e9) {
      const std::string why =
          "step " + std::to_string(step) + " took " + Seconds(seconds) + ", " + Seconds(usual) + " is usual";
      found.push_back({begin_ns + static_cast<std::int64_t>(seconds * 1e9),
                       {Make("step", begin_ns, seconds, why), static_cast<std::int64_t>(usual * 1e9)}});
    }
  }
  steps_.push_back(seconds);
  if (steps_.size() > kStepsKept) steps_.pop_front();
}

}  // namespace probing::daemon
