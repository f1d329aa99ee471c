#include "server/http_session.h"

#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>
#include <memory>

#include "base/clock.h"
#include "server/connection.h"
#include "server/http_translate.h"
#include "server/web_socket.h"
#include "wire/contract.h"

namespace probing::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr std::uint32_t kMaxHeaderBytes = 16 << 10;
constexpr std::uint64_t kMaxBodyBytes = 32U << 20;
constexpr std::size_t kSlowestBytesPerSecond = 64 << 10;

// Completes when the client has closed its end; a request sent ahead does not count.
asio::awaitable<void> ClientGone(Stream::socket_type& socket) {
  while (true) {
    const auto [error] = co_await socket.async_wait(Stream::socket_type::wait_read, kAwait);
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

// Ends what the stream waits for when the time is over. The timeout of the stream itself would close it, and
// the peer would never learn why.
class CutOff {
 public:
  CutOff(Stream& stream, std::chrono::seconds after) : state_(std::make_shared<State>(stream, after)) {
    stream.expires_never();
    state_->timer.async_wait([state = state_](boost::system::error_code error) {
      if (error || state->stream == nullptr) return;
      state->has_come = true;
      state->stream->cancel();
    });
  }
  ~CutOff() {
    state_->stream = nullptr;
    state_->timer.cancel();
  }
  CutOff(const CutOff&) = delete;
  CutOff& operator=(const CutOff&) = delete;

  // What ended an operation.
  boost::system::error_code Reason(boost::system::error_code error) const {
    return error && state_->has_come ? boost::beast::error::timeout : error;
  }

 private:
  struct State {
    State(Stream& of, std::chrono::seconds after) : stream(&of), timer(of.get_executor(), after) {}
    Stream* stream;
    bool has_come = false;
    asio::steady_timer timer;
  };
  std::shared_ptr<State> state_;  // shared with the timer's handler, which may come late
};

class Session {
 public:
  Session(Connection& connection, const HttpContext& context) : connection_(connection), context_(context) {}

  asio::awaitable<void> Run() {
    while (true) {
      const bool is_there = co_await AwaitRequest();
      if (!is_there) co_return;
      const bool goes_on = co_await ServeOne();
      if (!goes_on) co_return;
    }
  }

 private:
  using Parser = http::request_parser<http::string_body>;

  // For as long as a request is under way.
  class Running {
   public:
    explicit Running(Session& session) : session_(session) {
      session_.connection_.is_busy = true;
      session_.context_.running(+1);
    }
    ~Running() {
      session_.context_.running(-1);
      session_.connection_.is_busy = false;
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Session& session_;
  };

  bool IsLocal() const { return connection_.peer.via == Peer::Via::kUnix; }

  // Until the first byte of the next request is there.
  asio::awaitable<bool> AwaitRequest() {
    if (connection_.buffer.size() > 0) co_return true;
    connection_.idle_since_ns = MonotonicNs();
    if (IsLocal()) {
      connection_.stream.expires_never();
    } else {
      connection_.stream.expires_after(kIdleTimeout);
    }
    const auto [error, size] =
        co_await connection_.stream.async_read_some(connection_.buffer.prepare(4096), kAwait);
    if (error) co_return false;
    connection_.buffer.commit(size);
    co_return true;
  }

  // One request and its answer. False: the connection is at its end.
  asio::awaitable<bool> ServeOne() {
    Parser parser;
    parser.header_limit(kMaxHeaderBytes);
    parser.body_limit(kMaxBodyBytes);
    const boost::system::error_code head_error = co_await ReadHead(parser);
    if (head_error) {
      co_await Complain(head_error);
      co_return false;
    }
    RequestHead head = HeadOf(parser.get());
    keep_alive_ = parser.get().keep_alive();
    version_ = parser.get().version();
    is_head_ = head.method == "HEAD";
    Result<Url> url = ParseUrl({parser.get().target().data(), parser.get().target().size()});
    if (!url.ok()) {
      co_await Turn({400, url.error()});
      co_return false;
    }
    head.answers_links = context_.router.AnswersLinks(url->path);
    if (const std::optional<std::string> ticket = TicketOf(head, *url)) {
      co_await Welcome(*ticket, head);
      co_return false;
    }
    const Access::Decision decision = context_.access.Check(head, connection_.peer, MonotonicNs());
    if (decision.refusal) {
      co_await Turn(*decision.refusal);
      co_return false;
    }
    const bool has_body = co_await ReadBody(parser);
    if (!has_body) co_return false;
    const Running running(*this);
    const bool goes_on = co_await Respond(parser, std::move(*url), decision.right, head.is_upgrade);
    co_return goes_on;
  }

  asio::awaitable<boost::system::error_code> ReadHead(Parser& parser) {
    // Mostly all of it has come at once.
    boost::system::error_code error;
    connection_.buffer.consume(parser.put(connection_.buffer.data(), error));
    if (error != http::error::need_more && (error || parser.is_header_done())) co_return error;
    const CutOff cut_off(connection_.stream, kHeaderTimeout);
    const auto [read_error, size] =
        co_await http::async_read_header(connection_.stream, connection_.buffer, parser, kAwait);
    co_return cut_off.Reason(read_error);
  }

  asio::awaitable<bool> ReadBody(Parser& parser) {
    // Others might see another end of it than we do.
    if (!parser.chunked() && parser.get().count(http::field::transfer_encoding) > 0) {
      co_await WriteLast(ErrorContent({Code::kUsage, "bodies come as they are or in chunks", ""}, 501));
      co_return false;
    }
    if (parser.is_done()) co_return true;
    parser.eager(true);
    if (connection_.buffer.size() > 0) {
      boost::system::error_code error;
      connection_.buffer.consume(parser.put(connection_.buffer.data(), error));
      if (error && error != http::error::need_more) {
        co_await Complain(error);
        co_return false;
      }
      if (parser.is_done()) co_return true;
    }
    const CutOff cut_off(connection_.stream, kBodyTimeout);
    if (parser.get()[http::field::expect] == "100-continue") {
      constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
      const auto [error, size] =
          co_await asio::async_write(connection_.stream, asio::buffer(kGoOn.data(), kGoOn.size()), kAwait);
      if (error) co_return false;
    }
    const auto [error, size] =
        co_await http::async_read(connection_.stream, connection_.buffer, parser, kAwait);
    if (error) co_await Complain(cut_off.Reason(error));
    co_return !error;
  }

  asio::awaitable<bool> Respond(Parser& parser, Url url, Right right, bool is_upgrade) {
    Result<Request> request = Translate(parser.get(), std::move(url));
    if (!request.ok()) {
      const bool written = co_await Write(ErrorContent(request.error()));
      co_return written&& keep_alive_;
    }
    request->right = right;
    request->peer = connection_.peer.ToText();
    request->peer_address = connection_.peer.address;
    request->served_at = {connection_.peer.local_address, connection_.peer.local_port};
    if (const SocketHandler* handler = is_upgrade ? context_.router.FindSocket(*request) : nullptr) {
      connection_.stream.expires_never();
      http::request<http::string_body> raw = parser.release();
      co_await context_.router.Announce(*request);
      co_await RunWebSocket(connection_, raw, *handler, *request);
      co_return false;
    }
    using namespace asio::experimental::awaitable_operators;  // NOLINT: the only way to get operator||
    connection_.stream.expires_never();
    if (const EventHandler* handler = context_.router.FindEvents(*request)) {
      co_await context_.router.Announce(*request);
      co_await (Follow(*handler, *request) || ClientGone(connection_.stream.socket()));
      co_return false;
    }
    auto first = co_await (Answer(*request) || ClientGone(connection_.stream.socket()));
    if (first.index() == 1) co_return false;
    const bool written = co_await Write(std::get<0>(std::move(first)));
    co_return written&& keep_alive_;
  }

  asio::awaitable<Content> Answer(const Request& request) {
    // Programs on this machine are of one version; others take what they get.
    const bool same_version = request.client_version.empty() || request.client_version == PROBING_VERSION;
    if (IsLocal() && !same_version && request.path != wire::kShutdownRoute) {
      co_return ErrorContent(
          {Code::kFailed, "this is probingd " PROBING_VERSION ", the client is " + request.client_version,
           "stop it (POST /api/v1/shutdown) and start the client's own"},
          wire::kVersionMismatch);
    }
    co_return co_await context_.router.Dispatch(request);
  }

  asio::awaitable<void> Follow(const EventHandler& handler, const Request& request) {
    bool started = false;
    const Send send = [this, &started](std::string text) { return SendEvent(std::move(text), started); };
    Result<void> done;
    try {
      done = co_await handler(request, send);
    } catch (const boost::system::system_error&) {
      throw;  // the client has gone
    } catch (const std::exception& e) {
      done = Error{Code::kFailed, request.path + ": " + e.what(), "this is a bug of probingd"};
    }
    if (!done.ok() && !started) {
      (void)co_await Write(ErrorContent(done.error()));
    } else if (!done.ok()) {
      (void)co_await SendEvent("event: failed\ndata: " + ErrorContent(done.error()).body + "\n\n", started);
    }
  }

  asio::awaitable<bool> SendEvent(std::string text, bool& started) {
    if (!started) text = EventStreamHead() + text;
    started = true;
    connection_.stream.expires_after(kWriteTimeout);
    const auto [error, size] = co_await asio::async_write(connection_.stream, asio::buffer(text), kAwait);
    connection_.stream.expires_never();
    co_return !error;
  }

  asio::awaitable<bool> Write(Content content) {
    const std::size_t size_bytes = content.body.size();
    http::response<http::string_body> response = ToResponse(std::move(content), version_, keep_alive_);
    connection_.stream.expires_after(kWriteTimeout +
                                     std::chrono::seconds(size_bytes / kSlowestBytesPerSecond));
    if (is_head_) {
      http::response<http::empty_body> head(response.base());
      const auto [error, written] = co_await http::async_write(connection_.stream, head, kAwait);
      co_return !error;
    }
    const auto [error, written] = co_await http::async_write(connection_.stream, response, kAwait);
    co_return !error;
  }

  asio::awaitable<void> WriteLast(Content content) {
    keep_alive_ = false;
    const bool written = co_await Write(std::move(content));
    if (written) co_await SayGoodbye(connection_);
  }

  asio::awaitable<void> Complain(boost::system::error_code error) {
    if (std::optional<Content> complaint = ComplaintAbout(error)) co_await WriteLast(std::move(*complaint));
  }

  asio::awaitable<void> Turn(const Refusal& refusal) {
    context_.refused(connection_.peer, refusal.error);
    Content content = ErrorContent(refusal.error, refusal.http_status);
    if (refusal.http_status == 401)
      content.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"probing\"");
    if (refusal.http_status == 429) content.headers.emplace_back("Retry-After", "60");
    co_await WriteLast(std::move(content));
  }

  // Somebody came by a one-time link: from now on the browser has a cookie.
  asio::awaitable<void> Welcome(const std::string& ticket, const RequestHead& head) {
    Access::Visit visit = context_.access.RedeemTicket(ticket, head, connection_.peer, MonotonicNs());
    if (visit.refusal) {
      co_await Turn(*visit.refusal);
      co_return;
    }
    Content content{"text/plain", "welcome\n", 303, {}};
    content.headers.emplace_back("Location", "/");
    content.headers.emplace_back("Set-Cookie", std::string(kSessionCookie) + "=" + visit.cookie +
                                                   "; Path=/; HttpOnly; SameSite=Strict" +
                                                   (connection_.peer.is_encrypted ? "; Secure" : ""));
    co_await WriteLast(std::move(content));
  }

  Connection& connection_;
  const HttpContext& context_;
  bool keep_alive_ = false;
  bool is_head_ = false;
  unsigned version_ = 11;
};

}  // namespace

asio::awaitable<void> RunHttpSession(Connection& connection, const HttpContext& context) {
  Session session(connection, context);
  co_await session.Run();
}

}  // namespace probing::server
