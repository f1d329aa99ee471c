#include "wire/store_url.h"

#include <algorithm>

#include "base/text.h"
#include "wire/url_text.h"

namespace probing::wire {
namespace {

constexpr std::string_view kPlain = "clickhouse://";
constexpr std::string_view kEncrypted = "clickhouse+https://";
constexpr std::uint16_t kPlainPort = 8123;
constexpr std::uint16_t kEncryptedPort = 8443;

Error NotAStore(std::string_view text) {
  return {Code::kUsage, "\"" + WithoutPassword(text) + "\" is not a store",
          "it is written as clickhouse://HOST:8123/DATABASE, with USER:PASSWORD@ before the host if needed"};
}

// Names of databases and settings go into SQL and into requests as they are.
bool IsName(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && std::ranges::all_of(text, fits) && !IsNumber(text.substr(0, 1));
}

bool TakeSettings(std::string_view text, StoreUrl& url) {
  while (!text.empty()) {
    std::string_view value = TakePart(text, '&');
    const std::string_view name = TakePart(value, '=');
    if (!IsName(name)) return false;
    url.settings.emplace_back(name, PercentDecoded(value));
  }
  return true;
}

}  // namespace

std::string StoreUrl::ToText() const {
  return std::string(is_encrypted ? kEncrypted : kPlain) + address.ToText() + "/" + database;
}

bool LooksLikeStore(std::string_view text) {
  return text.starts_with(kPlain) || text.starts_with(kEncrypted);
}

Result<StoreUrl> ParseStoreUrl(std::string_view text) {
  if (!LooksLikeStore(text)) return NotAStore(text);
  StoreUrl url;
  url.is_encrypted = text.starts_with(kEncrypted);
  std::string_view settings = text.substr((url.is_encrypted ? kEncrypted : kPlain).size());
  std::string_view rest = TakePart(settings, '?');
  if (!TakeUser(rest, url.user, url.password) || !TakeSettings(settings, url)) return NotAStore(text);
  std::string place(TakePart(rest, '/'));
  // An address has a port; this one need not.
  if (place.rfind(':') == std::string::npos || place.ends_with(']'))
    place += ":" + std::to_string(url.is_encrypted ? kEncryptedPort : kPlainPort);
  Result<Address> address = ParseAddress(place);
  if (!address.ok() || place.starts_with(':') || place.starts_with('*') || !IsName(rest))
    return NotAStore(text);
  url.address = std::move(*address);
  url.database = std::string(rest);
  return url;
}

std::string WithoutPassword(std::string_view text) {
  std::string shown(text);
  const std::size_t begin = shown.find("://");
  const std::size_t at =
      begin == std::string::npos ? begin : shown.substr(0, shown.find('/', begin + 3)).rfind('@');
  if (at == std::string::npos) return shown;
  const std::size_t colon = shown.find(':', begin + 3);
  return colon < at ? shown.replace(colon + 1, at - colon - 1, "***") : shown;
}

}  // namespace probing::wire
