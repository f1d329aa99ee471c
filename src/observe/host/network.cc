#include "observe/host/network.h"

#include <array>

namespace probing::observe {
namespace {

// Columns of /proc/net/dev after the name.
enum Field {
  kRxBytes,
  kRxPackets,
  kRxErrors,
  kRxDrops,
  kTxBytes = 8,
  kTxPackets,
  kTxErrors,
  kTxDrops,
  kFields
};

}  // namespace

std::vector<InterfaceLook> NetworkWatch::Look(std::string& scratch) {
  std::vector<InterfaceLook> looks;
  for (auto& [name, counters] : interfaces_) counters.seen = false;
  std::string_view text = file_.Read(scratch).value_or("");
  while (!text.empty()) {
    std::string_view line = TakeLine(text);
    const std::size_t colon = line.rfind(':');  // "eth0:1" was a name once
    if (colon == std::string_view::npos) continue;
    std::string_view name = line.substr(0, colon);
    name = TakeWord(name);
    line.remove_prefix(colon + 1);
    std::array<Number, kFields> values;
    for (Number& value : values) value = ParseNumber(TakeWord(line));
    if (name.empty() || (values[kRxBytes].value_or(0) == 0 && values[kTxBytes].value_or(0) == 0)) continue;

    auto it = interfaces_.find(name);
    if (it == interfaces_.end()) it = interfaces_.emplace(name, Counters{}).first;
    Counters& counters = it->second;
    counters.seen = true;
    InterfaceLook& look = looks.emplace_back();
    look.name = name;
    look.received_bytes = counters.received_bytes.Step(values[kRxBytes]);
    look.sent_bytes = counters.sent_bytes.Step(values[kTxBytes]);
    look.received_packets = counters.received_packets.Step(values[kRxPackets]);
    look.sent_packets = counters.sent_packets.Step(values[kTxPackets]);
    look.errors = counters.errors.Step(
        Plus(Plus(values[kRxErrors], values[kRxDrops]), Plus(values[kTxErrors], values[kTxDrops])));
    look.is_quiet = look.received_bytes == 0 && look.sent_bytes == 0 && look.errors == 0;
  }
  std::erase_if(interfaces_, [](const auto& entry) { return !entry.second.seen; });
  return looks;
}

}  // namespace probing::observe
