// Work that would hold up the daemon's own thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

namespace probing::daemon {

// What `work` returns, from a thread that may wait: the daemon's own may not. It is waited for even when
// the client has gone. (A coroutine on those threads would be told so by another of them while it runs.)
template <typename Work>
boost::asio::awaitable<std::invoke_result_t<Work>> Aside(boost::asio::io_context& io,
                                                         boost::asio::thread_pool& threads, Work work) {
  namespace asio = boost::asio;
  std::optional<std::invoke_result_t<Work>> outcome;
  const auto start = [&](auto handler) {
    asio::post(threads, [&io, &work, &outcome, handler = std::move(handler)]() mutable {
      std::exception_ptr problem;
      try {
        outcome.emplace(work());
      } catch (...) {
        problem = std::current_exception();
      }
      asio::post(io, [handler = std::move(handler), problem]() mutable { std::move(handler)(problem); });
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(start,
                                                                                         asio::use_awaitable);
  co_return std::move(*outcome);
}

}  // namespace probing::daemon
