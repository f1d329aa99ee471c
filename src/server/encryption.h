// TLS in front of the server: an encrypted connection becomes one that looks like any other.
//
// What is decrypted goes through a pair of sockets to a session that knows nothing of it. So there is one
// kind of stream in the server, and OpenSSL stays behind this header.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "base/result.h"
#include "server/connection.h"
#include "tls/identity.h"

namespace boost::asio::ssl {
class context;
}

namespace probing::server {

class Encryption {
 public:
  static Result<std::shared_ptr<Encryption>> Create(const tls::Identity& identity);

  // The decrypted side of `outer`, of which the first bytes were read already: they are in its buffer. The
  // returned socket ends when the client does, or when it does not shake hands in time.
  // REQUIRES: outer is not used any more.
  Result<Stream::socket_type> Decrypt(boost::asio::io_context& io, std::unique_ptr<Connection> outer) const;

 private:
  explicit Encryption(std::shared_ptr<boost::asio::ssl::context> context) : context_(std::move(context)) {}

  // Shared with the connections that were made with it.
  std::shared_ptr<boost::asio::ssl::context> context_;
};

}  // namespace probing::server
