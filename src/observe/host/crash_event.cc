#include "observe/host/crash_event.h"

#include <array>
#include <string_view>

#include "observe/host/series_table.h"

namespace probing::observe {
namespace {

constexpr std::array<std::string_view, 8> kColumns{"reason",    "exit_code", "signal",  "message",
                                                   "last_step", "name",      "cmdline", "started"};
constexpr std::uint64_t kRows = 64;  // a target ends once

}  // namespace

Result<void> WriteCrashEvent(ring::Arena& arena, const HowItEnded& how, const EndedTarget& target) {
  ASSIGN_OR_RETURN(SeriesTable table, SeriesTable::Add(arena, "crash.events", kColumns, kRows));
  const bool by_exception =
      how.reason == HowItEnded::Reason::kExit && how.exit_code != 0 && !target.exception.empty();
  const std::string signal = how.signal.has_value() ? SignalName(*how.signal) : "";
  const Number exit_code = how.exit_code.has_value() ? Number(*how.exit_code) : Number();
  const ring::Cell started =
      target.started_ns.has_value() ? ring::Cell::Timestamp(*target.started_ns) : ring::Cell::Null();
  table.Write(how.noticed_ns, std::array<ring::Cell, kColumns.size()>{
                                  ring::Cell::String(by_exception ? "exception" : ReasonName(how.reason)),
                                  ToCell(exit_code), ToCell(std::string_view(signal)),
                                  ToCell(std::string_view(by_exception ? target.exception : how.message)),
                                  ToCell(target.last_step), ToCell(std::string_view(target.name)),
                                  ToCell(std::string_view(target.cmdline)), started});
  return {};
}

}  // namespace probing::observe
