#include "cluster/receipt.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace probing::cluster {

std::size_t Receipt::failed() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(asked, [](const auto& each) { return !each.second.empty(); }));
}

std::string Receipt::ToJson() const {
  using Json = nlohmann::ordered_json;
  Json missing = Json::array();
  for (const auto& [node, reason] : asked) {
    if (!reason.empty()) missing.push_back({{"node", node}, {"reason", reason}});
  }
  const std::size_t expected = asked.size() + 1;
  Json json{{"expected", expected},
            {"answered", expected - failed()},
            {"failed", std::move(missing)},
            {"dropped", dropped},
            {"bytes", bytes},
            {"epoch", epoch}};
  if (epoch != epoch_before || !restarted.empty()) {
    json["epoch_before"] = epoch_before;
    json["restarted"] = restarted;
  }
  for (const auto& [node, ahead_ms] : clocks)
    json["clocks"].push_back({{"node", node}, {"ahead_ms", ahead_ms}});
  for (const PlannedShare& share : plan) {
    json["plan"].push_back({{"table", share.table},
                            {"node", share.node},
                            {"rows", share.rows ? Json(*share.rows) : Json()},
                            {"bytes", share.rows ? Json(share.bytes) : Json()}});
  }
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace probing::cluster
