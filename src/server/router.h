// Routes of the HTTP server: JSON in; JSON, another kind of content, or an Error out.
//
// A handler is a coroutine on the server's one thread. When its client goes away it is
// cancelled: whatever it awaits ends with operation_aborted.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace probing::server {

using Json = nlohmann::ordered_json;  // fields stay as they were written: people read them

struct Request {
  std::string method;
  std::string path;                          // without the query
  std::map<std::string, std::string> query;  // ?name=value, decoded
  std::string client_version;                // wire::kVersionHeader; "" when not sent
  Json body;                                 // an object; empty when there was no body
};

struct Content {
  std::string type;  // as Content-Type names it
  std::string body;
  std::vector<std::string> warnings;  // beside the answer: wire::kWarningHeader, one for each
};

struct Response {
  int http_status = 200;
  Content content;
};

using Handler = std::function<boost::asio::awaitable<Result<Json>>(const Request&)>;
using ContentHandler = std::function<boost::asio::awaitable<Result<Content>>(const Request&)>;

class Router {
 public:
  void Add(std::string_view method, std::string_view path, Handler handler);
  void AddContent(std::string_view method, std::string_view path, ContentHandler handler);

  // Never throws except for cancellation; every failure is an answer.
  // Lifetime: router and request outlive the coroutine.
  boost::asio::awaitable<Response> Dispatch(const Request& request) const;

 private:
  std::map<std::pair<std::string, std::string>, ContentHandler, std::less<>> handlers_;
};

// The answer for an error, as wire/contract.h describes it.
Response ErrorResponse(const Error& error);

// "/a/b?x=1%202" into the path and the query of `request`.
void ParseUrl(std::string_view url, Request& request);

}  // namespace probing::server
