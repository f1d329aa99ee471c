#include "daemon/job_json.h"

namespace probing::daemon {
namespace {

using server::Json;

Json OrNull(const std::optional<std::int64_t>& number) { return number ? Json(*number) : Json(); }
Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

Json JobToJson(const process::JobIdentity& identity) {
  Json parallel = Json::object();
  for (const auto& [name, rank] : identity.parallel) parallel[name] = rank;
  Json variables = Json::object();
  for (const auto& [name, value] : identity.variables) variables[name] = value;
  return {{"name", identity.job},
          {"role", OrNull(std::string(process::JobRoleName(identity.role)))},
          {"title", OrNull(identity.title)},
          {"launcher", OrNull(identity.launcher)},
          {"rank", OrNull(identity.rank)},
          {"world_size", OrNull(identity.world_size)},
          {"local_rank", OrNull(identity.local_rank)},
          {"node_rank", OrNull(identity.node_rank)},
          {"restart", OrNull(identity.restart)},
          {"parallel", std::move(parallel)},
          {"variables", std::move(variables)}};
}

}  // namespace probing::daemon
