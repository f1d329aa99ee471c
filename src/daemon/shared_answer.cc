#include "daemon/shared_answer.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace probing::daemon {
namespace asio = boost::asio;

namespace {

// A question does not wait longer for an equal one that was asked before: that may be long.
constexpr std::chrono::milliseconds kPatience{5};

}  // namespace

// Wakes those who wait, however the computation ends: by its answer, or with its client.
class SharedAnswer::Turn {
 public:
  explicit Turn(SharedAnswer& answer) : answer_(answer) {
    ++answer_.computing_;
    answer_.newest_begun_ = begun;
    answer_.changed_.cancel();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    --answer_.computing_;
    answer_.changed_.cancel();
  }

  const Clock::time_point begun = Clock::now();

 private:
  SharedAnswer& answer_;
};

SharedAnswer::SharedAnswer(asio::io_context& io, Compute compute)
    : compute_(std::move(compute)), changed_(io) {}

asio::awaitable<void> SharedAnswer::Renew() {
  const Turn turn(*this);
  Result<server::Content> content = co_await compute_();
  const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
  if (state.cancelled() != asio::cancellation_type::none) co_return;  // our client's end is no answer
  if (turn.begun < begun_) co_return;  // somebody who was not patient with us has been quicker
  begun_ = turn.begun;
  if (!content.ok()) {
    latest_ = content.error();
    co_return;
  }
  const bool is_same = latest_.ok() && *latest_ != nullptr && **latest_ == *content;
  if (!is_same) latest_ = std::make_shared<server::Content>(std::move(*content));
}

// Until a computation begins or ends, or the time has come. One timer for all who wait: nobody puts it off
// for another.
asio::awaitable<void> SharedAnswer::WaitUntil(Clock::time_point time) {
  const bool has_come = changed_.expiry() <= Clock::now();
  if (has_come || time < changed_.expiry()) changed_.expires_at(time);
  (void)co_await changed_.async_wait(asio::as_tuple(asio::use_awaitable));
}

asio::awaitable<Result<SharedAnswer::Pointer>> SharedAnswer::Get(Wish wish) {
  const Clock::time_point wanted = Clock::now() - wish.age;
  const bool is_patient = wish.patience == kForever;
  while (begun_ < wanted) {
    const bool is_coming = computing_ > 0 && newest_begun_ >= wanted;
    const Clock::time_point until =
        is_coming || is_patient ? Clock::time_point::max() : newest_begun_ + wish.patience;
    if (computing_ > 0 && Clock::now() < until) {
      co_await WaitUntil(until);
    } else {
      co_await Renew();
    }
  }
  co_return latest_;
}

std::shared_ptr<SharedAnswer> SharedAnswers::Get(const std::string& what, SharedAnswer::Compute compute) {
  std::erase_if(by_name_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<SharedAnswer>& known = by_name_[what];
  std::shared_ptr<SharedAnswer> answer = known.lock();
  if (answer == nullptr) known = answer = std::make_shared<SharedAnswer>(io_, std::move(compute));
  return answer;
}

asio::awaitable<Result<server::Content>> AskOnce(std::shared_ptr<SharedAnswer> answer) {
  const Result<SharedAnswer::Pointer> content = co_await answer->Get({.patience = kPatience});
  if (!content.ok()) co_return content.error();
  const bool is_for_us_alone = answer.use_count() == 1;
  if (is_for_us_alone) co_return std::move(**content);
  co_return **content;
}

}  // namespace probing::daemon
