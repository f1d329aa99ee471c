// Routes of the HTTP server: JSON in; JSON, another kind of content, or an Error out.
//
// A handler is a coroutine on the server's one thread. When its client goes away it is
// cancelled: whatever it awaits ends with operation_aborted. Every route says which right it
// takes; what a request may do was found out before (access.h). No route answers a browser that another
// site has sent, unless it says so (AnswerLinks).
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "server/rights.h"
#include "wire/address.h"

namespace probing::server {

using Json = nlohmann::ordered_json;  // fields stay as they were written: people read them

struct Request {
  std::string method;
  std::string path;                          // without the query
  std::map<std::string, std::string> query;  // ?name=value, decoded
  std::string client_version;                // wire::kVersionHeader; "" when not sent
  std::string accept;
  std::string accept_encoding;
  std::string if_none_match;
  Json body;  // an object; empty when there was no body
  Right right = Right::kOwn;
  std::string peer;          // for logs
  std::string peer_address;  // over TCP, without the port; "" over the unix socket
  wire::Address served_at;   // of ours, that it came to; port 0 over the unix socket
};

struct Content {
  std::string type;  // as Content-Type names it
  std::string body;
  int http_status = 200;
  std::vector<std::pair<std::string, std::string>> headers;

  bool operator==(const Content&) const = default;
};

using Handler = std::function<boost::asio::awaitable<Result<Json>>(const Request&)>;
using ContentHandler = std::function<boost::asio::awaitable<Result<Content>>(const Request&)>;

// Answers that go on for as long as the client stays. Send: false when it has gone.
using Send = std::function<boost::asio::awaitable<bool>(std::string)>;
using Receive = std::function<boost::asio::awaitable<std::optional<std::string>>()>;
// Server-sent events: what is sent is put on the wire as it is ("data: …\n\n"). An Error before the first
// Send is an ordinary answer, later ones end the stream.
using EventHandler = std::function<boost::asio::awaitable<Result<void>>(const Request&, const Send&)>;
// A WebSocket: one message for each Send and Receive.
using SocketHandler =
    std::function<boost::asio::awaitable<void>(const Request&, const Receive&, const Send&)>;

class Router {
 public:
  void Add(std::string_view method, std::string_view path, Right right, Handler handler);
  void AddContent(std::string_view method, std::string_view path, Right right, ContentHandler handler);
  void AddEvents(std::string_view path, Right right, EventHandler handler);
  void AddSocket(std::string_view path, Right right, SocketHandler handler);
  // A link on another site may lead to this path. REQUIRES: opening it does and costs nothing, and what is
  // answered is the same for everybody.
  void AnswerLinks(std::string_view path);
  bool AnswersLinks(std::string_view path) const;
  // Told of requests that lack the right they take.
  void OnRefusal(std::function<void(const Request&, const Error&)> audit) { audit_ = std::move(audit); }
  // Awaited before a request with the right it takes is answered.
  using Announcement = std::function<boost::asio::awaitable<void>(const Request&)>;
  void OnRequest(Announcement announcement) { announcement_ = std::move(announcement); }
  // Dispatch() does so itself; for requests that take another way. Lifetime: as for Dispatch().
  boost::asio::awaitable<void> Announce(const Request& request) const;
  // For GETs of paths outside /api/ that nobody else answers.
  void SetFiles(ContentHandler handler) { files_ = std::move(handler); }

  // Never throws except for cancellation; every failure is an answer.
  // Lifetime: router and request outlive the coroutine.
  boost::asio::awaitable<Content> Dispatch(const Request& request) const;

  // Null when the path is none of these, or when the right is missing (then Dispatch says so).
  const EventHandler* FindEvents(const Request& request) const;
  const SocketHandler* FindSocket(const Request& request) const;

 private:
  template <typename T>
  struct Route {
    Right right;
    T handler;
  };
  std::optional<Content> Refuse(const Request& request) const;
  Content TooFewRights(const Request& request, Right needed) const;

  std::map<std::pair<std::string, std::string>, Route<ContentHandler>, std::less<>> handlers_;
  std::map<std::string, Route<EventHandler>, std::less<>> events_;
  std::map<std::string, Route<SocketHandler>, std::less<>> sockets_;
  std::set<std::string, std::less<>> linked_;
  ContentHandler files_;
  std::function<void(const Request&, const Error&)> audit_;
  Announcement announcement_;
};

// On one line. Bytes of a target may be anything, and JSON is UTF-8: what is not is replaced.
std::string JsonText(const Json& json);
Content JsonContent(const Json& json);

// The answer for an error, as wire/contract.h describes it.
Json ErrorJson(const Error& error);
Content ErrorContent(const Error& error);
Content ErrorContent(const Error& error, int http_status);

}  // namespace probing::server
