// Where a store of many hosts' rows is, as people write it.
//
//   clickhouse://[USER[:PASSWORD]@]HOST[:8123]/DATABASE[?SETTING=VALUE&…]
//   clickhouse+https://…   the same encrypted; the port is 8443 unless said
//
// What follows the question mark is passed on to the server with everything that is asked of it. In user and
// password %XX stands for a byte. Linked into the probe, so nothing here throws.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "wire/address.h"

namespace probing::wire {

// How its tables are made: GET ?database=NAME&cluster=NAME&replicated=1.
inline constexpr std::string_view kStoreDdlRoute = "/api/v1/store/ddl";

struct StoreUrl {
  Address address;
  bool is_encrypted = false;
  std::string database;
  std::string user;  // "" for the server's default
  std::string password;
  std::vector<std::pair<std::string, std::string>> settings;

  // For logs and people: without the password and the settings.
  std::string ToText() const;
};

bool LooksLikeStore(std::string_view text);

// kUsage for anything else.
Result<StoreUrl> ParseStoreUrl(std::string_view text);

// The text as it may be shown: stars for the password.
std::string WithoutPassword(std::string_view text);

}  // namespace probing::wire
