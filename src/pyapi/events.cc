#include "pyapi/events.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "pyapi/recorder.h"

namespace probing::pyapi {
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
  using ring::Cell;
  auto table = Recorder::FindTable("python.spans", {});
  if (!table.ok()) return;
  const std::string attributes = "{\"message\": " + JsonText(message) + "}";
  const Cell cells[] = {
      Cell::Timestamp(WallNs()),
      Cell::Int(syscall(SYS_gettid)),
      Cell::Null(),
      Cell::Null(),
      Cell::String(name),
      Cell::String("event"),
      step ? Cell::Int(*step) : Cell::Null(),
      Cell::Null(),
      Cell::String(attributes),
  };
  (*table)->Write(cells, std::size(cells));
}

}  // namespace probing::pyapi
