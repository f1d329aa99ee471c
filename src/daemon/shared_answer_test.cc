#include "daemon/shared_answer.h"

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
using server::Content;
using namespace std::chrono_literals;

// Counts how often it was begun, and takes a moment.
class Slow {
 public:
  explicit Slow(asio::io_context& io) : io_(io) {}

  SharedAnswer::Compute Counting() {
    return [this]() -> asio::awaitable<Result<Content>> {
      ++begun;
      const std::string text = std::to_string(answer);
      asio::steady_timer timer(io_, takes);
      co_await timer.async_wait(asio::use_awaitable);
      co_return Content{"text/plain", text, 200, {}};
    };
  }

  int begun = 0;
  int answer = 42;
  std::chrono::nanoseconds takes = 5ms;

 private:
  asio::io_context& io_;
};

asio::awaitable<void> Collect(std::shared_ptr<SharedAnswer> followed, SharedAnswer::Wish wish,
                              std::vector<SharedAnswer::Pointer>& texts) {
  const Result<SharedAnswer::Pointer> text = co_await followed->Get(wish);
  texts.push_back(text.ok() ? *text : nullptr);
}

void RunToEnd(asio::io_context& io) {
  io.restart();
  io.run();
}

TEST(SharedAnswer, IsComputedOnceForAHundred) {
  asio::io_context io;
  Slow slow(io);
  SharedAnswers all(io);
  std::vector<SharedAnswer::Pointer> texts;
  for (int i = 0; i < 100; ++i)
    asio::co_spawn(io, Collect(all.Get("x", slow.Counting()), {.age = 10s}, texts), asio::detached);
  RunToEnd(io);
  ASSERT_EQ(texts.size(), 100U);
  for (const SharedAnswer::Pointer& text : texts) EXPECT_EQ(text->body, "42");
  EXPECT_EQ(slow.begun, 1);
}

TEST(SharedAnswer, IsAnotherPointerOnlyWhenItHasChanged) {
  asio::io_context io;
  Slow slow(io);
  const auto followed = std::make_shared<SharedAnswer>(io, slow.Counting());
  std::vector<SharedAnswer::Pointer> texts;
  for (const int answer : {1, 1, 2}) {
    slow.answer = answer;
    asio::co_spawn(io, Collect(followed, {.age = 1ms}, texts), asio::detached);
    RunToEnd(io);
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_EQ(slow.begun, 3);
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_NE(texts[1], texts[2]);
  EXPECT_EQ(texts[2]->body, "2");
}

TEST(SharedAnswer, IsComputedByTheNextWhenTheFirstLeaves) {
  asio::io_context io;
  Slow slow(io);
  const auto followed = std::make_shared<SharedAnswer>(io, slow.Counting());
  std::vector<SharedAnswer::Pointer> texts_of_first;
  std::vector<SharedAnswer::Pointer> texts_of_next;
  asio::cancellation_signal leave;
  asio::co_spawn(io, Collect(followed, {.age = 10s}, texts_of_first),
                 asio::bind_cancellation_slot(leave.slot(), asio::detached));
  asio::co_spawn(io, Collect(followed, {.age = 10s}, texts_of_next), asio::detached);
  asio::steady_timer soon(io, 1ms);
  soon.async_wait([&](const boost::system::error_code&) { leave.emit(asio::cancellation_type::all); });
  RunToEnd(io);
  EXPECT_TRUE(texts_of_first.empty());
  ASSERT_EQ(texts_of_next.size(), 1U);
  EXPECT_EQ(texts_of_next[0]->body, "42");
  EXPECT_EQ(slow.begun, 2);
}

TEST(SharedAnswer, IsBegunAnewForWhoAsksLater) {
  asio::io_context io;
  Slow slow(io);
  SharedAnswers all(io);
  const std::shared_ptr<SharedAnswer> answer = all.Get("x", slow.Counting());
  std::vector<SharedAnswer::Pointer> texts;
  asio::co_spawn(io, Collect(answer, {}, texts), asio::detached);
  io.poll();  // the first is on its way
  slow.answer = 43;
  for (int i = 0; i < 50; ++i) asio::co_spawn(io, Collect(answer, {}, texts), asio::detached);
  RunToEnd(io);
  ASSERT_EQ(texts.size(), 51U);
  EXPECT_EQ(texts.front()->body, "42");
  EXPECT_EQ(texts.back()->body, "43");
  EXPECT_EQ(slow.begun, 2);
}

TEST(SharedAnswer, DoesNotHoldUpTheImpatient) {
  asio::io_context io;
  Slow slow(io);
  slow.takes = 1h;
  const auto answer = std::make_shared<SharedAnswer>(io, slow.Counting());
  std::vector<SharedAnswer::Pointer> texts;
  std::vector<SharedAnswer::Pointer> patient;
  asio::co_spawn(io, Collect(answer, {}, texts), asio::detached);
  asio::co_spawn(io, Collect(answer, {}, patient), asio::detached);
  io.poll();
  slow.takes = 1ms;
  for (int i = 0; i < 50; ++i) asio::co_spawn(io, Collect(answer, {.patience = 1ms}, texts), asio::detached);
  io.restart();
  while (texts.size() < 50) ASSERT_EQ(io.run_one_for(10s), 1U);
  EXPECT_EQ(slow.begun, 2);                                    // one for the fifty
  while (patient.empty()) ASSERT_EQ(io.run_one_for(10s), 1U);  // and for who would have waited
}

TEST(SharedAnswer, IsForgottenWithTheLastFollower) {
  asio::io_context io;
  Slow slow(io);
  SharedAnswers all(io);
  std::shared_ptr<SharedAnswer> followed = all.Get("x", slow.Counting());
  EXPECT_EQ(all.Get("x", slow.Counting()), followed);
  const std::weak_ptr<SharedAnswer> seen = followed;
  followed.reset();
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace probing::daemon
