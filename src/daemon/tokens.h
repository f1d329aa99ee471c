// The secrets that let others in: a token for each right.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "server/access.h"

namespace probing::daemon {

// From PROBING_TOKEN ("secret", which allows everything, or "read:secret,eval:secret"), the rest from the
// file `token` beside the daemon's socket (0600), which is made when it is missing.
Result<void> LoadTokens(server::Access& access);

// PROBING_TOKEN of a target, which its user gave for the address it asked for. It is valid beside the
// daemon's own: a target never replaces a secret.
Result<void> AdoptTokens(server::Access& access, std::string_view variable);

// Of PROBING_TOKEN, what this daemon shows to those of other hosts: the one that allows least.
struct ShownToken {
  server::Right right = server::Right::kRead;
  std::string text;  // "" for none
};
ShownToken TokenForOthers();

}  // namespace probing::daemon
