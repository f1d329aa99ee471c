#include "server/http_server.h"

#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "base/clock.h"
#include "wire/contract.h"
#include "wire/rendezvous.h"

namespace probing::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Socket = asio::local::stream_protocol::socket;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::uint64_t kMaxBodyBytes = 32U << 20;
constexpr auto kRepair = Json::error_handler_t::replace;  // text that is not UTF-8

// Completes when the client has closed its end; a request sent ahead does not count.
asio::awaitable<void> ClientGone(Socket& socket) {
  while (true) {
    const auto [error] = co_await socket.async_wait(Socket::wait_read, kAwait);
    if (error) co_return;
    char byte = 0;
    const ssize_t n = recv(socket.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) co_return;
    if (n > 0) {
      // Readable for as long as that request waits, so there is nothing to wait for.
      asio::steady_timer never(socket.get_executor(), asio::steady_timer::time_point::max());
      co_await never.async_wait(kAwait);
      co_return;
    }
  }
}

Result<Request> Translate(const http::request<http::string_body>& raw) {
  Request request;
  request.method = std::string(raw.method_string());
  request.client_version = std::string(raw[std::string(wire::kVersionHeader)]);
  ParseUrl({raw.target().data(), raw.target().size()}, request);
  request.body = raw.body().empty() ? Json::object() : Json::parse(raw.body(), nullptr, false);
  if (!request.body.is_object()) {
    return Error{Code::kUsage, "the body of " + request.path + " is not a JSON object", ""};
  }
  return request;
}

}  // namespace

// Counts a request as running for as long as it lives.
class HttpServer::Running {
 public:
  explicit Running(HttpServer& server) : server_(server) { ++server_.running_; }
  ~Running() {
    --server_.running_;
    server_.last_request_ns_ = MonotonicNs();
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  HttpServer& server_;
};

struct HttpServer::Session {
  static asio::awaitable<void> Run(HttpServer& server, Socket socket) {
    boost::beast::flat_buffer buffer;
    while (true) {
      http::request_parser<http::string_body> parser;
      parser.body_limit(kMaxBodyBytes);
      const auto [read_error, read_bytes] = co_await http::async_read(socket, buffer, parser, kAwait);
      if (read_error) co_return;
      const Running running(server);
      const bool keep_alive = parser.get().keep_alive();

      const Result<Request> request = Translate(parser.get());
      Response answer;
      if (request.ok()) {
        using namespace asio::experimental::awaitable_operators;  // NOLINT: the only way to get operator||
        auto first = co_await (server.Answer(*request) || ClientGone(socket));
        if (first.index() == 1) co_return;
        answer = std::get<0>(std::move(first));
      } else {
        answer = ErrorResponse(request.error());
      }

      http::response<http::string_body> response(static_cast<http::status>(answer.http_status), 11);
      response.set(http::field::server, "probingd/" PROBING_VERSION);
      response.set(http::field::content_type, answer.content.type);
      for (const std::string& warning : answer.content.warnings)
        response.insert(std::string(wire::kWarningHeader), Json(warning).dump(-1, ' ', true, kRepair));
      response.keep_alive(keep_alive);
      response.body() = std::move(answer.content.body);
      response.prepare_payload();
      const auto [write_error, written_bytes] = co_await http::async_write(socket, response, kAwait);
      if (write_error || !keep_alive) co_return;
    }
  }
};

asio::awaitable<Response> HttpServer::Answer(const Request& request) {
  const bool same_version = request.client_version.empty() || request.client_version == PROBING_VERSION;
  if (!same_version && request.path != wire::kShutdownRoute) {
    Response refusal = ErrorResponse(
        {Code::kFailed, "this is probingd " PROBING_VERSION ", the client is " + request.client_version,
         "stop it (POST /api/v1/shutdown) and start the client's own"});
    refusal.http_status = wire::kVersionMismatch;
    co_return refusal;
  }
  co_return co_await router_.Dispatch(request);
}

asio::awaitable<void> HttpServer::Accept(ScopedFd listener) {
  asio::local::stream_protocol::acceptor acceptor(io_);
  acceptor.assign(asio::local::stream_protocol(), listener.Release());
  while (true) {
    auto [error, socket] = co_await acceptor.async_accept(kAwait);
    if (error == asio::error::operation_aborted) co_return;
    if (error) {
      // Out of descriptors, most likely: connections end and give some back.
      asio::steady_timer pause(io_, std::chrono::milliseconds(100));
      co_await pause.async_wait(kAwait);
      continue;
    }
    if (!wire::PeerIsTrusted(socket.native_handle())) continue;
    asio::co_spawn(io_, Session::Run(*this, std::move(socket)), asio::detached);
  }
}

void HttpServer::Serve(ScopedFd listener) {
  last_request_ns_ = MonotonicNs();
  asio::co_spawn(io_, Accept(std::move(listener)), asio::detached);
}

}  // namespace probing::server
