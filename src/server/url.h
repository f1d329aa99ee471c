// What the first line of a request asks for, decoded once. Every decision (another site's request? which
// route? which file?) is made by this and never by the raw text, so that two of them cannot see two paths.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace probing::server {

struct Url {
  std::string path;  // "/api/v1/health": letters, digits, "-._~", no empty or dot segment
  std::map<std::string, std::string> query;  // ?name=value, decoded
};

// kUsage for a path that could be written in another way (%61pi, //, /./, \), an encoding that is none, and
// a parameter that is there twice: others might read it as something else than this server does.
Result<Url> ParseUrl(std::string_view target);

}  // namespace probing::server
