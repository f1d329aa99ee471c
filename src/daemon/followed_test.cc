#include "daemon/followed.h"

#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>
#include <vector>

namespace probing::daemon {
namespace {

namespace asio = boost::asio;
using server::Json;
using namespace std::chrono_literals;

// Counts how often it was begun, and takes a moment.
class Slow {
 public:
  explicit Slow(asio::io_context& io) : io_(io) {}

  Followed::Compute Counting() {
    return [this]() -> asio::awaitable<Result<Json>> {
      ++begun;
      asio::steady_timer timer(io_, 5ms);
      co_await timer.async_wait(asio::use_awaitable);
      co_return Json(answer);
    };
  }

  int begun = 0;
  int answer = 42;

 private:
  asio::io_context& io_;
};

asio::awaitable<void> Collect(std::shared_ptr<Followed> followed, std::chrono::nanoseconds age,
                              std::vector<Followed::Text>& texts) {
  const Result<Followed::Text> text = co_await followed->Get(age);
  texts.push_back(text.ok() ? *text : nullptr);
}

void RunToEnd(asio::io_context& io) {
  io.restart();
  io.run();
}

TEST(Followed, IsComputedOnceForAHundred) {
  asio::io_context io;
  Slow slow(io);
  AllFollowed all(io);
  std::vector<Followed::Text> texts;
  for (int i = 0; i < 100; ++i)
    asio::co_spawn(io, Collect(all.Get("x", slow.Counting()), 10s, texts), asio::detached);
  RunToEnd(io);
  ASSERT_EQ(texts.size(), 100U);
  for (const Followed::Text& text : texts) EXPECT_EQ(*text, "42");
  EXPECT_EQ(slow.begun, 1);
}

TEST(Followed, IsAnotherPointerOnlyWhenItHasChanged) {
  asio::io_context io;
  Slow slow(io);
  const auto followed = std::make_shared<Followed>(io, slow.Counting());
  std::vector<Followed::Text> texts;
  for (const int answer : {1, 1, 2}) {
    slow.answer = answer;
    asio::co_spawn(io, Collect(followed, 1ms, texts), asio::detached);
    RunToEnd(io);
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_EQ(slow.begun, 3);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_NE(texts[1], texts[2]);
  EXPECT_EQ(*texts[2], "2");
}

TEST(Followed, IsComputedByTheNextWhenTheFirstLeaves) {
  asio::io_context io;
  Slow slow(io);
  const auto followed = std::make_shared<Followed>(io, slow.Counting());
  std::vector<Followed::Text> texts_of_first;
  std::vector<Followed::Text> texts_of_next;
  asio::cancellation_signal leave;
  asio::co_spawn(io, Collect(followed, 10s, texts_of_first),
                 asio::bind_cancellation_slot(leave.slot(), asio::detached));
  asio::co_spawn(io, Collect(followed, 10s, texts_of_next), asio::detached);
  asio::steady_timer soon(io, 1ms);
  soon.async_wait([&](const boost::system::error_code&) { leave.emit(asio::cancellation_type::all); });
  RunToEnd(io);
  EXPECT_TRUE(texts_of_first.empty());
  ASSERT_EQ(texts_of_next.size(), 1U);
  EXPECT_EQ(*texts_of_next[0], "42");
  EXPECT_EQ(slow.begun, 2);
}

TEST(Followed, IsForgottenWithTheLastFollower) {
  asio::io_context io;
  Slow slow(io);
  AllFollowed all(io);
  std::shared_ptr<Followed> followed = all.Get("x", slow.Counting());
  EXPECT_EQ(all.Get("x", slow.Counting()), followed);
  const std::weak_ptr<Followed> seen = followed;
  followed.reset();
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace probing::daemon
