#include "wire/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace probing::wire {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

bool IsIpv4(const std::string& host) {
  in_addr address{};
  return inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool IsIpv6(const std::string& host) {
  in6_addr address{};
  return inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsName(std::string_view host) {
  return !host.empty() && host.size() <= 253 && std::all_of(host.begin(), host.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_';
  });
}

Error NoAddress(std::string_view text) {
  return {Code::kUsage, "\"" + std::string(text) + "\" is not an address",
          "an address is HOST:PORT, [IPV6]:PORT or PORT, as in 127.0.0.1:3344"};
}

std::optional<std::uint16_t> ParsePort(std::string_view text) {
  std::uint16_t port = 0;
  if (!IsNumber(text) || !ParseNumber(text, port) || port == 0) return std::nullopt;
  return port;
}

}  // namespace

std::string Address::ToText() const {
  return (IsIpv6(host) ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool IsIpLiteral(const std::string& host) { return IsIpv4(host) || IsIpv6(host); }

bool IsLoopback(const std::string& host) {
  const std::string name = LowerCase(host);
  return name == "localhost" || name == "::1" || (IsIpv4(name) && name.starts_with("127."));
}

Result<Address> ParseAddress(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  const std::string_view port_text = colon == std::string_view::npos ? text : text.substr(colon + 1);
  const std::optional<std::uint16_t> port = ParsePort(port_text);
  if (!port) return NoAddress(text);
  std::string host(colon == std::string_view::npos ? "" : text.substr(0, colon));
  if (host.empty()) return Address{kLoopback, *port};
  if (host == "*") return Address{"0.0.0.0", *port};
  if (host.front() == '[') {
    if (host.back() != ']') return NoAddress(text);
    host = host.substr(1, host.size() - 2);
    if (!IsIpv6(host)) return NoAddress(text);
  } else if (!IsName(host)) {
    return NoAddress(text);
  }
  return Address{std::move(host), *port};
}

std::optional<Result<Address>> AddressFromVariables(
    const std::function<std::string(const char* name)>& variable) {
  const std::string port = variable("PROBING_PORT");
  for (const char* name : {"PROBE_ADDR", "PROBING_ADDR"}) {
    const std::string text = variable(name);
    if (text.empty()) continue;
    // The host alone, and its port in the other variable.
    const bool is_host = text.find(':') == std::string::npos && !IsNumber(text);
    return ParseAddress(is_host && !port.empty() ? text + ":" + port : text);
  }
  if (port.empty()) return std::nullopt;
  return ParseAddress(port);
}

}  // namespace probing::wire
