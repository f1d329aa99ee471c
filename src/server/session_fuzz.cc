// Whole conversations: what a peer sends goes through the HTTP layer and the text protocol as it would from a
// socket, in two pieces. The first byte says who the peer is and where the pieces part.
//
// Whatever is sent, the conversation ends, what is answered to HTTP is HTTP, and a stranger without the token
// reaches no handler.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <string>
#include <string_view>

#include "server/connection.h"
#include "server/http_session.h"
#include "server/text_session.h"

namespace {

namespace asio = boost::asio;
using namespace probing::server;

constexpr std::string_view kToken = "a-token-that-nobody-can-guess";

struct Talk {
  bool is_owner;
  bool has_token;  // it is in what is sent, somewhere

  void Reach() const {
    if (!is_owner && !has_token) std::abort();
  }
};

// One handler of each kind, which give back what they got.
void AddRoutes(Router& router, const Talk& talk) {
  using probing::Result;
  router.Add("POST", "/json", Right::kRead, [&talk](const Request& request) -> asio::awaitable<Result<Json>> {
    talk.Reach();
    co_return request.body;
  });
  router.AddContent("GET", "/text", Right::kRead,
                    [&talk](const Request& request) -> asio::awaitable<Result<Content>> {
                      talk.Reach();
                      co_return Content{"text/plain", request.path + request.accept, 200, {}};
                    });
  router.AddEvents("/events", Right::kRead,
                   [&talk](const Request& request, const Send& send) -> asio::awaitable<Result<void>> {
                     talk.Reach();
                     if (request.query.contains("wrong"))
                       co_return probing::Error{probing::Code::kUsage, "wrong", ""};
                     const bool sent = co_await send("data: 1\n\n");
                     if (sent) (void)co_await send("data: 2\n\n");
                     co_return Result<void>();
                   });
  router.AddSocket(
      "/socket", Right::kEval,
      [&talk](const Request&, const Receive& receive, const Send& send) -> asio::awaitable<void> {
        talk.Reach();
        while (std::optional<std::string> message = co_await receive()) {
          const bool sent = co_await send(*message);
          if (!sent) co_return;
        }
      });
}

asio::awaitable<void> Converse(Connection& connection, Protocol protocol, const HttpContext& context,
                               const LineHandler& lines, bool& ended) {
  try {
    if (protocol == Protocol::kHttp) {
      co_await RunHttpSession(connection, context);
    } else {
      co_await RunTextSession(connection, context.access, lines, context.refused);
    }
  } catch (const std::exception&) {
    // As in HttpServer: it ends here.
  }
  ended = true;
}

// What has been answered so far.
void Drain(int fd, std::string& answer) {
  char bytes[4096];
  ssize_t n = 0;
  while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
    answer.append(bytes, static_cast<std::size_t>(n));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const unsigned choice = data[0];
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const Talk talk{(choice & 1U) != 0, text.find(kToken) != std::string_view::npos};
  const Protocol protocol = Sniff(text);
  if (protocol == Protocol::kTls) return 0;

  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  asio::io_context io(1);
  Access access;
  (void)access.SetToken(Right::kEval, std::string(kToken));
  Router router;
  AddRoutes(router, talk);
  const Peer peer{.via = Peer::Via::kTcp,
                  .address = "127.0.0.1",
                  .uid = talk.is_owner ? geteuid() : geteuid() + 1,
                  .local_address = "127.0.0.1"};
  Stream::socket_type socket(io);
  socket.assign(asio::generic::stream_protocol(AF_UNIX, 0), ends[0]);
  Connection connection(std::move(socket), peer);
  const HttpContext context{router, access, [](const Peer&, const probing::Error&) {}, [](int) {}};
  const LineHandler lines = [&talk](TextState&, const std::string& line) -> asio::awaitable<std::string> {
    talk.Reach();
    co_return line + "\n";
  };
  bool ended = false;
  asio::co_spawn(io, Converse(connection, protocol, context, lines, ended), asio::detached);

  std::string answer;
  const std::size_t first = text.size() * (choice >> 1U) / 128;
  for (const std::string_view piece : {text.substr(0, first), text.substr(first)}) {
    if (!piece.empty()) (void)!send(ends[1], piece.data(), piece.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    while (io.poll() > 0) Drain(ends[1], answer);
  }
  shutdown(ends[1], SHUT_WR);
  for (int turns = 0; !ended && turns < 1000; ++turns) {
    io.run_one_for(std::chrono::milliseconds(10));
    Drain(ends[1], answer);
  }
  if (!ended) std::abort();
  Drain(ends[1], answer);
  close(ends[1]);
  if (protocol == Protocol::kHttp && !answer.empty() && !answer.starts_with("HTTP/1.")) std::abort();
  return 0;
}
