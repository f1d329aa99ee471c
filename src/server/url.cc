#include "server/url.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/text.h"

namespace probing::server {
namespace {

// Nothing else is in a path of ours, so none of them is ever encoded.
bool IsPlain(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return is_letter || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

bool IsPath(std::string_view path) {
  if (!path.starts_with('/')) return false;
  path.remove_prefix(1);
  if (path.empty()) return true;
  while (true) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view segment = path.substr(0, end);
    if (segment.empty() || segment == "." || segment == "..") return false;
    if (!std::all_of(segment.begin(), segment.end(), IsPlain)) return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

std::optional<std::string> DecodePercent(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (text.size() - i < 3) return std::nullopt;
    unsigned char byte = 0;
    const char* digits = text.data() + i + 1;
    if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

}  // namespace

Result<Url> ParseUrl(std::string_view target) {
  const std::size_t question = std::min(target.find('?'), target.size());
  Url url;
  url.path = std::string(target.substr(0, question));
  if (!IsPath(url.path)) {
    return Error{Code::kUsage, "the request does not name a path of this server",
                 "as in GET /api/v1/health, with nothing encoded before the question mark"};
  }
  std::string_view rest = target.substr(std::min(question + 1, target.size()));
  while (!rest.empty()) {
    const std::string_view pair = TakePart(rest, '&');
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::optional<std::string> name = DecodePercent(pair.substr(0, equals));
    const std::optional<std::string> value = DecodePercent(pair.substr(std::min(pair.size(), equals + 1)));
    if (!name || !value)
      return Error{Code::kUsage, "a parameter of " + url.path + " has a % that encodes nothing",
                   "% itself is %25"};
    if (!url.query.emplace(*name, *value).second)
      return Error{Code::kUsage, "a parameter of " + url.path + " is there twice", ""};
  }
  return url;
}

}  // namespace probing::server
