// HTTP/1.1 with keep-alive on a unix socket; the only file that knows Boost.Beast is its .cc.
//
// Peers of other users are refused. Requests of one connection are answered in order, those of
// different connections side by side on the one thread of the io_context.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>

#include "base/scoped_fd.h"
#include "server/router.h"

namespace probing::server {

class HttpServer {
 public:
  // Lifetime: io and router outlive the server's coroutines, that is io.run().
  HttpServer(boost::asio::io_context& io, const Router& router) : io_(io), router_(router) {}

  // REQUIRES: listener is a listening unix socket.
  void Serve(ScopedFd listener);

  // Requests under way, and when the last one ended (MonotonicNs): what idleness is made of.
  int running() const { return running_; }
  std::int64_t last_request_ns() const { return last_request_ns_; }

 private:
  class Running;
  struct Session;
  boost::asio::awaitable<void> Accept(ScopedFd listener);
  boost::asio::awaitable<Response> Answer(const Request& request);

  boost::asio::io_context& io_;
  const Router& router_;
  int running_ = 0;
  std::int64_t last_request_ns_ = 0;
};

}  // namespace probing::server
