#include "server/http_translate.h"

#include <array>
#include <boost/beast/core/error.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include "server/http_session.h"
#include "wire/contract.h"

namespace probing::server {
namespace {

namespace http = boost::beast::http;

constexpr int kDeepestJson = 32;

// No script that is not a file of ours, nothing from elsewhere, in nobody's frame. Styles may be inline:
// editors and charts set positions.
constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// Referrer-Policy: other sites learn nothing, and Access sees that the page asks where nothing else says so.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kHeaders{{
    {"Content-Security-Policy", kContentSecurityPolicy},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "same-origin"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
}};

std::string Field(const RawRequest& raw, boost::beast::string_view name) {
  const auto value = raw[name];
  return {value.data(), value.size()};
}

}  // namespace

RequestHead HeadOf(const RawRequest& raw) {
  RequestHead head;
  head.method = std::string(raw.method_string());
  const auto [first, last] = raw.equal_range(http::field::host);
  for (auto host = first; host != last; ++host) head.hosts.emplace_back(host->value());
  head.origin = Field(raw, "Origin");
  head.authorization = Field(raw, "Authorization");
  head.cookie = Field(raw, "Cookie");
  head.content_type = Field(raw, "Content-Type");
  head.fetch_site = Field(raw, "Sec-Fetch-Site");
  head.fetch_mode = Field(raw, "Sec-Fetch-Mode");
  head.fetch_dest = Field(raw, "Sec-Fetch-Dest");
  head.referer = Field(raw, "Referer");
  head.user_agent = Field(raw, "User-Agent");
  const std::string length = Field(raw, "Content-Length");
  head.has_body = (!length.empty() && length != "0") || raw.count(http::field::transfer_encoding) > 0;
  for (const char* name : {"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "Via"})
    head.was_forwarded = head.was_forwarded || raw.count(name) > 0;
  head.is_upgrade = boost::beast::websocket::is_upgrade(raw);
  return head;
}

std::optional<std::string> TicketOf(const RequestHead& head, const Url& url) {
  const auto ticket = url.query.find("ticket");
  if (head.method != "GET" || url.path != "/" || ticket == url.query.end()) return std::nullopt;
  return ticket->second;
}

bool IsTooDeep(std::string_view json) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepestJson) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

Result<Request> Translate(const RawRequest& raw, Url url) {
  Request request;
  request.method = raw.method() == http::verb::head ? "GET" : std::string(raw.method_string());
  request.client_version = Field(raw, std::string(wire::kVersionHeader));
  request.accept = Field(raw, "Accept");
  request.accept_encoding = Field(raw, "Accept-Encoding");
  request.if_none_match = Field(raw, "If-None-Match");
  request.path = std::move(url.path);
  request.query = std::move(url.query);
  if (IsTooDeep(raw.body()))
    return Error{Code::kUsage, "the body of " + request.path + " is nested too deeply", ""};
  request.body = raw.body().empty() ? Json::object() : Json::parse(raw.body(), nullptr, false);
  if (!request.body.is_object()) {
    return Error{Code::kUsage, "the body of " + request.path + " is not a JSON object", ""};
  }
  return request;
}

RawResponse ToResponse(Content content, unsigned version, bool keep_alive) {
  RawResponse response(static_cast<http::status>(content.http_status), version);
  response.set(http::field::server, "probingd/" PROBING_VERSION);
  if (!content.type.empty()) response.set(http::field::content_type, content.type);
  response.set(http::field::cache_control, "no-store");
  for (const auto& [name, value] : kHeaders) response.set(std::string(name), std::string(value));
  for (const auto& [name, value] : content.headers) response.erase(name);  // they take the place of ours
  for (const auto& [name, value] : content.headers) response.insert(name, value);
  response.keep_alive(keep_alive);
  response.body() = std::move(content.body);
  response.prepare_payload();
  return response;
}

std::string EventStreamHead() {
  std::string head =
      "HTTP/1.1 200 OK\r\nServer: probingd/" PROBING_VERSION
      "\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nConnection: close\r\n";
  for (const auto& [name, value] : kHeaders) head += std::string(name) + ": " + std::string(value) + "\r\n";
  return head + "\r\n";
}

std::optional<Content> ComplaintAbout(boost::system::error_code error) {
  if (error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
  if (error == http::error::header_limit)
    return ErrorContent({Code::kUsage, "the headers of this request are too long", ""}, 431);
  if (error == http::error::body_limit)
    return ErrorContent({Code::kUsage, "the body of this request is too long", "it may have 32 MB"}, 413);
  if (error == boost::beast::error::timeout)
    return ErrorContent({Code::kTimeout, "this request did not come in time", ""}, 408);
  if (error.category() != make_error_code(http::error::bad_method).category()) return std::nullopt;
  return ErrorContent({Code::kUsage, "this is not HTTP: " + error.message(), ""}, 400);
}

}  // namespace probing::server
