#include "daemon/followed.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;

// Wakes those who wait, however the computation ends: by its answer, or with its client.
class Followed::Turn {
 public:
  explicit Turn(Followed& followed) : followed_(followed) { followed_.is_computing_ = true; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    followed_.is_computing_ = false;
    followed_.computed_.cancel();
  }

 private:
  Followed& followed_;
};

Followed::Followed(asio::io_context& io, Compute compute)
    : compute_(std::move(compute)), computed_(io, asio::steady_timer::time_point::max()) {}

asio::awaitable<void> Followed::Renew() {
  const Turn turn(*this);
  const Result<Json> json = co_await compute_();
  const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
  if (state.cancelled() != asio::cancellation_type::none) co_return;  // our client's end is no answer
  renewed_at_ = std::chrono::steady_clock::now();
  if (!json.ok()) {
    latest_ = json.error();
    co_return;
  }
  std::string text = server::JsonText(*json);
  const bool is_same = latest_.ok() && *latest_ != nullptr && **latest_ == text;
  if (!is_same) latest_ = std::make_shared<const std::string>(std::move(text));
}

asio::awaitable<Result<Followed::Text>> Followed::Get(std::chrono::nanoseconds age) {
  while (std::chrono::steady_clock::now() - renewed_at_ > age) {
    if (is_computing_) {
      (void)co_await computed_.async_wait(asio::as_tuple(asio::use_awaitable));
    } else {
      co_await Renew();
    }
  }
  co_return latest_;
}

std::shared_ptr<Followed> AllFollowed::Get(const std::string& what, Followed::Compute compute) {
  std::erase_if(by_name_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Followed>& known = by_name_[what];
  std::shared_ptr<Followed> followed = known.lock();
  if (followed == nullptr) known = followed = std::make_shared<Followed>(io_, std::move(compute));
  return followed;
}

}  // namespace probing::daemon
