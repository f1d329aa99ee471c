// An answer that clients follow, computed once for all of them: a hundred open pages ask what one asks.
//
// Runs on the daemon's one thread. Lifetime: shared by those who follow it, and gone with the last.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/router.h"

namespace probing::daemon {

class Followed {
 public:
  using Compute = std::function<boost::asio::awaitable<Result<server::Json>>()>;
  // JSON. The same pointer again says that nothing has changed.
  using Text = std::shared_ptr<const std::string>;

  Followed(boost::asio::io_context& io, Compute compute);

  // As it was at most `age` ago. The first who wants it newer computes it and the others wait for him; when
  // his client goes away meanwhile, the next takes his place.
  boost::asio::awaitable<Result<Text>> Get(std::chrono::nanoseconds age);

 private:
  class Turn;
  boost::asio::awaitable<void> Renew();

  Compute compute_;
  bool is_computing_ = false;
  boost::asio::steady_timer computed_;  // never expires: cancelled when a computation has ended
  std::chrono::steady_clock::time_point renewed_at_{};
  Result<Text> latest_ = Text();
};

// Those that are followed now, by what they answer.
class AllFollowed {
 public:
  explicit AllFollowed(boost::asio::io_context& io) : io_(io) {}

  // `compute` is used when nobody follows this yet.
  std::shared_ptr<Followed> Get(const std::string& what, Followed::Compute compute);

 private:
  boost::asio::io_context& io_;
  std::map<std::string, std::weak_ptr<Followed>> by_name_;
};

}  // namespace probing::daemon
