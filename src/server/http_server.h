// The listeners of probingd: a unix socket always, TCP addresses when asked for. On each of them HTTP/1.1
// and the text protocol: the first bytes tell which.
//
// Encrypted connections are told by their first bytes, too, once there is a certificate.
//
// On the unix socket peers of other users are hung up on; over TCP Access decides. Requests of one
// connection are answered in order, those of different ones side by side on the one thread of the
// io_context. There is a limit to connections: whoever was idle longest makes room.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "server/access.h"
#include "server/http_session.h"
#include "server/router.h"
#include "server/text_session.h"
#include "wire/address.h"

namespace probing::server {

struct Connection;
class Encryption;
enum class Protocol : std::uint8_t;

class HttpServer {
 public:
  struct Counters {
    std::uint64_t requests = 0;
    std::uint64_t refused = 0;  // by Access
    std::uint64_t connections = 0;
    std::uint64_t evicted = 0;  // to make room
  };

  // Lifetime: everything outlives the server's coroutines, that is io.run().
  HttpServer(boost::asio::io_context& io, const Router& router, Access& access);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void SetLineHandler(LineHandler handler) { lines_ = std::move(handler); }
  void OnRefusal(std::function<void(const Peer&, const Error&)> audit) { audit_ = std::move(audit); }

  // For connections from now on; null: none is decrypted.
  void SetEncryption(std::shared_ptr<const Encryption> encryption) { encryption_ = std::move(encryption); }

  // REQUIRES: listener is a listening unix socket.
  void Serve(ScopedFd listener);

  // Answers on a TCP address from now on; nothing happens when it does already. The host is an IP
  // literal or localhost. Whether that is wise is the caller's business.
  Result<void> Listen(const wire::Address& address);
  // Connections that are there stay.
  void Close(const wire::Address& address);
  std::vector<wire::Address> addresses() const;

  // Requests under way, and when the last one ended (MonotonicNs): what idleness is made of.
  int running() const { return running_; }
  std::int64_t last_request_ns() const { return last_request_ns_; }
  const Counters& counters() const { return counters_; }
  std::size_t open_connections() const { return connections_.size(); }

 private:
  using Acceptor = boost::asio::ip::tcp::acceptor;

  boost::asio::awaitable<void> AcceptUnix(ScopedFd listener);
  boost::asio::awaitable<void> AcceptTcp(std::shared_ptr<Acceptor> acceptor);
  void Start(std::unique_ptr<Connection> connection);
  boost::asio::awaitable<void> Run(std::list<std::unique_ptr<Connection>>::iterator connection);
  boost::asio::awaitable<Protocol> Recognise(Connection& connection);
  bool Decrypt(std::unique_ptr<Connection>& connection);
  bool MakeRoom(const Peer& peer);

  boost::asio::io_context& io_;
  const Router& router_;
  Access& access_;
  HttpContext context_;
  LineHandler lines_;
  std::shared_ptr<const Encryption> encryption_;  // shared with whoever set it
  std::function<void(const Peer&, const Error&)> audit_;
  // Shared by the list and the coroutine that waits for connections.
  std::map<std::string, std::pair<wire::Address, std::shared_ptr<Acceptor>>> acceptors_;
  std::list<std::unique_ptr<Connection>> connections_;
  Counters counters_;
  int running_ = 0;
  std::int64_t last_request_ns_ = 0;
};

}  // namespace probing::server
