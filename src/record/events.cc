#include "record/events.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "record/recorder.h"
#include "table/written_rows.h"

namespace probing::record {
namespace {

std::string JsonText(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return json + "\"";
}

}  // namespace

void WriteEvent(std::string_view name, const std::string& message, std::optional<std::int64_t> step) {
  const auto spans = Recorder::FindTable(table::PythonSpansRow::kTable, {});
  if (!spans.ok()) return;
  const std::string attributes = "{\"message\": " + JsonText(message) + "}";
  (*spans)->Write(table::PythonSpansRow{.timestamp = WallNs(),
                                        .tid = syscall(SYS_gettid),
                                        .name = name,
                                        .kind = "event",
                                        .step = step,
                                        .attributes = attributes});
}

}  // namespace probing::record
