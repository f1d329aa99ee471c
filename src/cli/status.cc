#include <algorithm>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

constexpr std::size_t kTextBytes = 200;

std::string ForPeople(const std::string& key, const Json& value) {
  if (!value.is_number_integer())
    return value.is_string() ? OneLine(value.get<std::string>(), kTextBytes) : value.dump();
  const auto number = value.get<std::int64_t>();
  if (key == "started_ns") {
    return FormatTime(number) + " (" + FormatDuration((WallNs() - number) / 1'000'000'000) + " ago)";
  }
  if (key.ends_with("_s")) return FormatDuration(number);
  if (key.ends_with("_bytes")) return std::to_string(number / 1024) + " KiB";
  return std::to_string(number);
}

// "started_ns" is for programs; a person reads "started".
std::string Label(std::string key) {
  for (const std::string_view unit : {"_ns", "_s", "_bytes"}) {
    if (key.ends_with(unit)) key.resize(key.size() - unit.size());
  }
  for (char& c : key) c = c == '_' ? ' ' : c;
  return key;
}

using Rows = std::vector<std::vector<std::string>>;

// Nested objects are shown as one list; a name that comes again says whose it is, or nothing new.
void AddRows(const Json& object, const std::string& owner, Rows& rows) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) {
      AddRows(value, key, rows);
      continue;
    }
    std::string label = Label(key);
    const std::string text = ForPeople(key, value);
    const auto same =
        std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row[0] == label; });
    if (same != rows.end() && (*same)[1] == text) continue;
    if (same != rows.end()) label = owner + " " + label;
    rows.push_back({label, text});
  }
}

Result<int> Run(const Invocation& invocation) {
  std::string path(wire::kStatusRoute);
  if (invocation.target) path += "?target=" + std::to_string(*invocation.target);
  ASSIGN_OR_RETURN(const Json answer, GetFromDaemon(path));
  if (invocation.Has("--json")) {
    Print(FormatJson(answer));
    return 0;
  }
  Rows rows;
  AddRows(answer, "", rows);
  for (auto& row : rows) row[0] = Painted(row[0], Colour::kBold);
  Print(FormatRows(rows));
  return 0;
}

}  // namespace

Command StatusCommand() {
  return {.name = "status",
          .summary = "Show the state of a target and its probe; without a target, of probingd",
          .example = "probing -t 1234 status",
          .target = TargetUse::kOptional,
          .options = {{"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
