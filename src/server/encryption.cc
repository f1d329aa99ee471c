#include "server/encryption.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

namespace probing::server {
namespace {

namespace asio = boost::asio;
namespace ssl = asio::ssl;
using namespace asio::experimental::awaitable_operators;  // NOLINT: the only way to get operator||

constexpr std::size_t kPieceBytes = 16384;  // as large as a record of TLS can be
constexpr std::chrono::seconds kFarewell{1};

class Tunnel {
 public:
  Tunnel(std::unique_ptr<Connection> outer, std::shared_ptr<ssl::context> context, Stream::socket_type inner)
      : outer_(std::move(outer)),
        context_(std::move(context)),
        client_(outer_->stream.socket(), *context_),
        inner_(std::move(inner)) {}

  asio::awaitable<void> Run() {
    const bool shaken = co_await ShakeHands();
    if (!shaken) co_return;
    // The session's end is the end; the client's only means that nothing more comes from it.
    co_await (FromSession() || FromClient());
    co_await (client_.async_shutdown(kAwait) || After(kFarewell));
  }

 private:
  asio::awaitable<void> After(std::chrono::seconds duration) {
    asio::steady_timer timer(client_.get_executor(), duration);
    (void)co_await timer.async_wait(kAwait);
  }

  asio::awaitable<bool> ShakeHands() {
    auto first = co_await (client_.async_handshake(ssl::stream_base::server, outer_->buffer.data(), kAwait) ||
                           After(kHeaderTimeout));
    if (first.index() != 0) co_return false;
    co_return !std::get<0>(std::get<0>(first));
  }

  asio::awaitable<void> FromClient() {
    std::array<char, kPieceBytes> piece;
    while (true) {
      const auto [error, size] = co_await client_.async_read_some(asio::buffer(piece), kAwait);
      if (error) break;
      const auto [failed, written] =
          co_await asio::async_write(inner_, asio::buffer(piece.data(), size), kAwait);
      if (failed) co_return;
    }
    boost::system::error_code ignored;
    inner_.shutdown(Stream::socket_type::shutdown_send, ignored);
    asio::steady_timer never(client_.get_executor(), asio::steady_timer::time_point::max());
    (void)co_await never.async_wait(kAwait);  // until the session has seen it and said its last
  }

  asio::awaitable<void> FromSession() {
    std::array<char, kPieceBytes> piece;
    while (true) {
      const auto [error, size] = co_await inner_.async_read_some(asio::buffer(piece), kAwait);
      if (error) co_return;
      // A client that does not read is waited for as long as anybody else.
      auto first = co_await (asio::async_write(client_, asio::buffer(piece.data(), size), kAwait) ||
                             After(kWriteTimeout));
      if (first.index() != 0 || std::get<0>(std::get<0>(first))) co_return;
    }
  }

  const std::unique_ptr<Connection> outer_;
  const std::shared_ptr<ssl::context> context_;
  ssl::stream<Stream::socket_type&> client_;
  Stream::socket_type inner_;
};

asio::awaitable<void> RunTunnel(std::unique_ptr<Tunnel> tunnel) {
  try {
    co_await tunnel->Run();
  } catch (const std::exception&) {
    // Out of memory: its sockets close, and both ends notice.
  }
}

Error Failed(const std::string& what, const boost::system::error_code& error) {
  return {Code::kUsage, what + ": " + error.message(), ""};
}

}  // namespace

Result<std::shared_ptr<Encryption>> Encryption::Create(const tls::Identity& identity) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  boost::system::error_code error;
  context->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 |
                           ssl::context::no_compression | SSL_OP_NO_RENEGOTIATION,
                       error);
  if (error) return Failed("prepare TLS", error);
  if (SSL_CTX_set_cipher_list(context->native_handle(), tls::kCiphers) != 1)
    return Error{Code::kFailed, "this OpenSSL has none of the ciphers that are allowed", ""};
  context->use_certificate_chain(asio::buffer(identity.certificate_pem), error);
  if (error) return Failed("use the certificate", error);
  context->use_private_key(asio::buffer(identity.key_pem), ssl::context::pem, error);
  if (error) return Failed("use the key of the certificate", error);
  return std::shared_ptr<Encryption>(new Encryption(std::move(context)));
}

Result<Stream::socket_type> Encryption::Decrypt(asio::io_context& io,
                                                std::unique_ptr<Connection> outer) const {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return ErrnoError("make a pair of sockets");
  const asio::generic::stream_protocol unix_stream(AF_UNIX, 0);
  Stream::socket_type near(io, unix_stream, ends[0]);
  Stream::socket_type far(io, unix_stream, ends[1]);
  outer->stream.expires_never();
  asio::co_spawn(io, RunTunnel(std::make_unique<Tunnel>(std::move(outer), context_, std::move(far))),
                 asio::detached);
  return near;
}

}  // namespace probing::server
