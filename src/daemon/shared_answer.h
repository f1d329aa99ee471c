// An answer that many want at the same time, computed once for all of them: a hundred open pages ask what one
// asks.
//
// Runs on the daemon's one thread. Lifetime: shared by those who want it, and gone with the last.
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

class SharedAnswer {
 public:
  using Clock = std::chrono::steady_clock;
  using Compute = std::function<boost::asio::awaitable<Result<server::Content>>()>;
  // The same pointer again says that nothing has changed.
  using Pointer = std::shared_ptr<server::Content>;

  static constexpr Clock::duration kForever = Clock::duration::max();
  struct Wish {
    Clock::duration age{};                // it may have been begun so long before now
    Clock::duration patience = kForever;  // how long one that was begun too early for us may hold us up
  };

  SharedAnswer(boost::asio::io_context& io, Compute compute);

  // The first who wants it newer than it is computes it, and the others wait for him; when his client goes
  // away meanwhile, the next takes his place.
  boost::asio::awaitable<Result<Pointer>> Get(Wish wish);

 private:
  class Turn;
  boost::asio::awaitable<void> Renew();
  boost::asio::awaitable<void> WaitUntil(Clock::time_point time);

  Compute compute_;
  int computing_ = 0;
  Clock::time_point newest_begun_{};   // of those being computed
  boost::asio::steady_timer changed_;  // cancelled whenever a computation begins or ends
  Clock::time_point begun_{};          // of the latest
  Result<Pointer> latest_ = Pointer();
};

// Those that are wanted now, by what they answer.
class SharedAnswers {
 public:
  explicit SharedAnswers(boost::asio::io_context& io) : io_(io) {}

  // `compute` is used when nobody wants this yet.
  std::shared_ptr<SharedAnswer> Get(const std::string& what, SharedAnswer::Compute compute);

 private:
  boost::asio::io_context& io_;
  std::map<std::string, std::weak_ptr<SharedAnswer>> by_name_;
};

// For who asks once, and wants what is true from now on.
boost::asio::awaitable<Result<server::Content>> AskOnce(std::shared_ptr<SharedAnswer> answer);

}  // namespace probing::daemon
