#include "server/rights.h"

#include <unistd.h>

#include <array>
#include <utility>

namespace probing::server {
namespace {

constexpr std::array<std::pair<Right, std::string_view>, 5> kNames{{{Right::kNone, "none"},
                                                                    {Right::kRead, "read"},
                                                                    {Right::kProfile, "profile"},
                                                                    {Right::kEval, "eval"},
                                                                    {Right::kOwn, "own"}}};

}  // namespace

std::string_view RightName(Right right) {
  for (const auto& [each, name] : kNames) {
    if (each == right) return name;
  }
  return "";
}

std::optional<Right> RightFromName(std::string_view name) {
  for (const auto& [right, each] : kNames) {
    if (each == name) return right;
  }
  return std::nullopt;
}

bool Peer::IsOwner() const { return uid && (*uid == geteuid() || *uid == 0); }

std::string Peer::ToText() const {
  if (via == Via::kUnix) return "uid " + std::to_string(uid.value_or(0));
  return address + (uid ? " uid " + std::to_string(*uid) : "");
}

}  // namespace probing::server
