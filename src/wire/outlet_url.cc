#include "wire/outlet_url.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "wire/url_text.h"

namespace probing::wire {
namespace {

constexpr std::string_view kPlain = "http://";
constexpr std::string_view kEncrypted = "https://";
constexpr std::string_view kHidden = "***";
// What a path may be shown to consist of. Any other word of it may be what lets one in.
constexpr std::array<std::string_view, 16> kKnownWords{
    "",     "api",    "v1",      "v2",       "alerts", "alertmanager", "otlp",     "metrics",
    "logs", "traces", "webhook", "webhooks", "hook",   "hooks",        "services", "prometheus"};
constexpr std::array<std::string_view, 5> kOwnHeaders{"host", "content-length", "content-type",
                                                      "transfer-encoding", "connection"};

Error NotAnOutlet() {
  return {Code::kUsage, "this is not the URL of an outlet",
          "it is written as https://HOST:PORT/PATH, with USER:PASSWORD@ before the host if needed"};
}

// What stands in a request as it is.
bool IsPlain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f && c != '#'; });
}

bool IsToken(std::string_view text) {
  const auto fits = [](char c) {
    return (Lower(c) >= 'a' && Lower(c) <= 'z') || IsNumber({&c, 1}) || c == '-' || c == '_';
  };
  return !text.empty() && std::ranges::all_of(text, fits);
}

}  // namespace

std::string OutletUrl::ToText() const {
  std::string text(is_encrypted ? kEncrypted : kPlain);
  if (!user.empty() || !password.empty()) text.append(kHidden).append("@");
  text += address.ToText();
  std::string_view rest = std::string_view(path).substr(1);
  for (bool more = true; more;) {
    more = rest.find('/') != std::string_view::npos;
    const std::string_view word = TakePart(rest, '/');
    text.append("/").append(std::ranges::find(kKnownWords, word) == kKnownWords.end() ? kHidden : word);
  }
  return query.empty() ? text : text.append("?").append(kHidden);
}

Result<OutletUrl> ParseOutletUrl(std::string_view text) {
  OutletUrl url;
  url.is_encrypted = text.starts_with(kEncrypted);
  if (!url.is_encrypted && !text.starts_with(kPlain)) return NotAnOutlet();
  std::string_view rest = text.substr((url.is_encrypted ? kEncrypted : kPlain).size());
  const std::size_t question = rest.find('?');
  if (question != std::string_view::npos) url.query = rest.substr(question);
  rest = rest.substr(0, question);
  if (!TakeUser(rest, url.user, url.password)) return NotAnOutlet();
  std::string place(TakePart(rest, '/'));
  url.path = "/" + std::string(rest);
  // An address has a port; this one need not.
  if (place.rfind(':') == std::string::npos || place.ends_with(']'))
    place += url.is_encrypted ? ":443" : ":80";
  Result<Address> address = ParseAddress(place);
  if (!address.ok() || place.starts_with(':') || place.starts_with('*') || !IsPlain(url.path) ||
      !IsPlain(url.query))
    return NotAnOutlet();
  url.address = std::move(*address);
  return url;
}

Result<HeaderList> ParseHeaders(std::string_view text) {
  const Error not_headers{Code::kUsage, "these are not headers of HTTP",
                          "they are written as name=value,name=value; %2C stands for a comma in a value"};
  HeaderList list;
  while (!text.empty()) {
    std::string_view value = TakePart(text, ',');
    const std::string_view name = Trim(TakePart(value, '='), " ");
    std::string decoded = PercentDecoded(Trim(value, " "));
    const bool fits =
        std::ranges::all_of(decoded, [](char c) { return (c >= 0x20 && c < 0x7f) || c == '\t'; });
    if (!IsToken(name) || decoded.empty() || !fits) return not_headers;
    if (std::ranges::find(kOwnHeaders, LowerCase(name)) != kOwnHeaders.end()) return not_headers;
    list.emplace_back(name, std::move(decoded));
  }
  return list;
}

std::string ShownUrl(std::string_view text) {
  if (text.empty() || text == "none") return std::string(text);
  const Result<OutletUrl> url = ParseOutletUrl(text);
  return url.ok() ? url->ToText() : std::string(kHidden);
}

std::string ShownHeaders(std::string_view text) {
  if (text.empty() || text == "none") return std::string(text);
  const Result<HeaderList> list = ParseHeaders(text);
  if (!list.ok()) return std::string(kHidden);
  std::string shown;
  for (const auto& [name, value] : *list)
    shown.append(shown.empty() ? "" : ",").append(name).append("=").append(kHidden);
  return shown;
}

}  // namespace probing::wire
