// Where findings are sent, as people write it, and what may be shown of that.
//
//   http[s]://[USER[:PASSWORD]@]HOST[:PORT][/PATH][?QUERY]
//
// Whoever knows such a URL can often send to it: paths of webhooks are secrets as well. Linked into the
// probe, so nothing here throws.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "wire/address.h"

namespace probing::wire {

struct OutletUrl {
  Address address;
  bool is_encrypted = false;
  std::string path;   // begins with a slash
  std::string query;  // with its question mark; "" for none
  std::string user;
  std::string password;

  // For logs and people: without user, password, query, and the words of the path that are not well known.
  std::string ToText() const;
};

// kUsage for anything else; the error does not repeat the text.
Result<OutletUrl> ParseOutletUrl(std::string_view text);

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// "name=value,name=value", in values %XX stands for a byte: as in OTEL_EXPORTER_OTLP_HEADERS. kUsage for
// anything else, and for those that HTTP itself needs; the error does not repeat a value.
Result<HeaderList> ParseHeaders(std::string_view text);

// As they may be shown. Of what cannot be read nothing is shown.
std::string ShownUrl(std::string_view text);
std::string ShownHeaders(std::string_view text);

}  // namespace probing::wire
