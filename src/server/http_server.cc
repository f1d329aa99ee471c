#include "server/http_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.h"
#include "server/connection.h"
#include "server/encryption.h"
#include "server/socket_owner.h"
#include "wire/rendezvous.h"

namespace probing::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr std::size_t kMaxStrangers = 64;  // who have to show a token yet
constexpr std::size_t kMaxConnections = 400;
constexpr int kBacklog = 128;

// After an error of accept: out of descriptors, most likely. Connections end and give some back.
asio::awaitable<void> Pause(asio::io_context& io) {
  asio::steady_timer pause(io, std::chrono::milliseconds(100));
  (void)co_await pause.async_wait(kAwait);
}

std::string HostText(const asio::ip::address& address) {
  // A v4 client of a v6 listener is known by its v4 address.
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  return address.to_string();
}

Peer UnixPeer(int fd) {
  const Result<wire::Peer> peer = wire::PeerOf(fd);
  Peer who;
  if (peer.ok()) who.uid = peer->uid;
  return who;
}

Peer TcpPeer(tcp::socket& socket) {
  boost::system::error_code error;
  Peer who;
  who.via = Peer::Via::kTcp;
  who.address = HostText(socket.remote_endpoint(error).address());
  who.local_address = HostText(socket.local_endpoint(error).address());
  who.local_port = socket.local_endpoint(error).port();
  who.uid = OwnerOfPeer(socket.native_handle());
  return who;
}

bool IsStranger(const Peer& peer) { return peer.via == Peer::Via::kTcp && !peer.IsOwner(); }

Error BoostError(const std::string& what, const boost::system::error_code& error) {
  return ErrnoError(what, error.value());
}

}  // namespace

HttpServer::HttpServer(asio::io_context& io, const Router& router, Access& access)
    : io_(io),
      router_(router),
      access_(access),
      context_{router_, access_,
               [this](const Peer& peer, const Error& error) {
                 ++counters_.refused;
                 if (audit_) audit_(peer, error);
               },
               [this](int change) {
                 running_ += change;
                 if (change > 0) ++counters_.requests;
                 last_request_ns_ = MonotonicNs();
               }} {}

HttpServer::~HttpServer() = default;

// False: nobody can go, so the new one has to.
bool HttpServer::MakeRoom(const Peer& peer) {
  const bool is_stranger = IsStranger(peer);
  std::size_t alike = 0;
  Connection* longest = nullptr;
  for (const auto& each : connections_) {
    if (each->peer.via == Peer::Via::kUnix || (is_stranger && !IsStranger(each->peer))) continue;
    ++alike;
    if (!each->is_busy && (longest == nullptr || each->idle_since_ns < longest->idle_since_ns))
      longest = each.get();
  }
  if (alike < (is_stranger ? kMaxStrangers : kMaxConnections)) return true;
  if (longest == nullptr) return false;
  ++counters_.evicted;
  longest->stream.cancel();
  boost::system::error_code ignored;
  longest->stream.socket().shutdown(asio::socket_base::shutdown_both, ignored);
  longest->idle_since_ns = MonotonicNs();  // its coroutine ends soon; meanwhile it is nobody's turn again
  return true;
}

void HttpServer::Start(std::unique_ptr<Connection> connection) {
  ++counters_.connections;
  connection->idle_since_ns = MonotonicNs();
  connections_.push_back(std::move(connection));
  asio::co_spawn(io_, Run(std::prev(connections_.end())), asio::detached);
}

// kUnknown: it has gone without a word.
asio::awaitable<Protocol> HttpServer::Recognise(Connection& connection) {
  if (connection.peer.via == Peer::Via::kUnix) co_return Protocol::kHttp;
  while (true) {
    const std::string_view read(static_cast<const char*>(connection.buffer.data().data()),
                                connection.buffer.size());
    const Protocol protocol = Sniff(read);
    if (protocol != Protocol::kUnknown) co_return protocol;
    connection.stream.expires_after(read.empty() ? kIdleTimeout : kHeaderTimeout);
    const auto [error, size] =
        co_await connection.stream.async_read_some(connection.buffer.prepare(4096), kAwait);
    // All it had to say looked like the start of a method.
    connection.has_said_all = error.failed();
    if (error) co_return read.empty() ? Protocol::kUnknown : Protocol::kText;
    connection.buffer.commit(size);
  }
}

// Puts the decrypted connection in the place of the encrypted one.
bool HttpServer::Decrypt(std::unique_ptr<Connection>& connection) {
  if (encryption_ == nullptr || connection->peer.is_encrypted) return false;
  Peer peer = connection->peer;
  peer.is_encrypted = true;
  const std::int64_t idle_since_ns = connection->idle_since_ns;
  Result<Stream::socket_type> socket = encryption_->Decrypt(io_, std::move(connection));
  if (!socket.ok()) return false;
  connection = std::make_unique<Connection>(std::move(*socket), std::move(peer));
  connection->idle_since_ns = idle_since_ns;
  return true;
}

asio::awaitable<void> HttpServer::Run(std::list<std::unique_ptr<Connection>>::iterator place) {
  try {
    Protocol protocol = co_await Recognise(**place);
    if (protocol == Protocol::kTls) {
      protocol = Protocol::kUnknown;
      if (Decrypt(*place)) protocol = co_await Recognise(**place);
    }
    if (protocol == Protocol::kUnknown) {
      connections_.erase(place);
      co_return;
    }
    Connection& connection = **place;
    if (protocol == Protocol::kHttp) co_await RunHttpSession(connection, context_);
    if (protocol == Protocol::kText && lines_) {
      co_await RunTextSession(connection, access_, lines_, context_.refused);
      last_request_ns_ = MonotonicNs();
    }
  } catch (const std::exception&) {
    // Cancelled, or out of memory: either way it ends here.
  }
  connections_.erase(place);
}

asio::awaitable<void> HttpServer::AcceptUnix(ScopedFd listener) {
  asio::local::stream_protocol::acceptor acceptor(io_);
  acceptor.assign(asio::local::stream_protocol(), listener.Release());
  while (true) {
    auto [error, socket] = co_await acceptor.async_accept(kAwait);
    if (error == asio::error::operation_aborted) co_return;
    if (error) {
      co_await Pause(io_);
      continue;
    }
    if (!wire::PeerIsTrusted(socket.native_handle())) continue;
    Peer peer = UnixPeer(socket.native_handle());
    Start(std::make_unique<Connection>(Stream::socket_type(std::move(socket)), std::move(peer)));
  }
}

asio::awaitable<void> HttpServer::AcceptTcp(std::shared_ptr<Acceptor> acceptor) {
  while (acceptor->is_open()) {
    auto [error, socket] = co_await acceptor->async_accept(kAwait);
    if (error == asio::error::operation_aborted) co_return;
    if (error) {
      co_await Pause(io_);
      continue;
    }
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    Peer peer = TcpPeer(socket);
    if (!MakeRoom(peer)) continue;
    Start(std::make_unique<Connection>(Stream::socket_type(std::move(socket)), std::move(peer)));
  }
}

void HttpServer::Serve(ScopedFd listener) {
  last_request_ns_ = MonotonicNs();
  asio::co_spawn(io_, AcceptUnix(std::move(listener)), asio::detached);
}

Result<void> HttpServer::Listen(const wire::Address& address) {
  const std::string text = address.ToText();
  if (acceptors_.contains(text)) return {};
  boost::system::error_code error;
  const auto ip = asio::ip::make_address(address.host == "localhost" ? "127.0.0.1" : address.host, error);
  if (error) {
    return Error{Code::kUsage, "cannot listen on " + text + ": " + address.host + " is a name",
                 "name an address of this machine, as in 127.0.0.1:" + std::to_string(address.port)};
  }
  auto acceptor = std::make_shared<Acceptor>(io_);
  const tcp::endpoint endpoint(ip, address.port);
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(kBacklog, error);
  if (error) {
    Error failure = BoostError("listen on " + text, error);
    if (error == asio::error::address_in_use) failure.hint = "somebody else is there: choose another port";
    return failure;
  }
  acceptors_[text] = {address, acceptor};
  asio::co_spawn(io_, AcceptTcp(acceptor), asio::detached);
  return {};
}

void HttpServer::Close(const wire::Address& address) {
  const auto found = acceptors_.find(address.ToText());
  if (found == acceptors_.end()) return;
  boost::system::error_code ignored;
  found->second.second->close(ignored);
  acceptors_.erase(found);
}

std::vector<wire::Address> HttpServer::addresses() const {
  std::vector<wire::Address> list;
  for (const auto& [text, entry] : acceptors_) list.push_back(entry.first);
  return list;
}

}  // namespace probing::server
