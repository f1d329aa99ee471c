#include "server/web_socket.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>

namespace probing::server {
namespace {

namespace asio = boost::asio;
namespace websocket = boost::beast::websocket;

constexpr std::size_t kMaxMessageBytes = 1 << 20;
constexpr std::size_t kMaxWaiting = 64;

class Conversation {
 public:
  explicit Conversation(Connection& connection)
      : socket_(connection.stream), arrived_(connection.stream.get_executor()) {
    socket_.read_message_max(kMaxMessageBytes);
    socket_.set_option(websocket::stream_base::timeout::suggested(boost::beast::role_type::server));
    socket_.text(true);
  }

  asio::awaitable<bool> Accept(const RawRequest& raw) {
    const auto [error] = co_await socket_.async_accept(raw, kAwait);
    co_return !error;
  }

  // Reads all there is; whoever wants a message takes it from here. So waiting for one can be given up
  // without breaking the stream.
  asio::awaitable<void> ReadAll() {
    while (waiting_.size() < kMaxWaiting) {
      boost::beast::flat_buffer buffer;
      const auto [error, size] = co_await socket_.async_read(buffer, kAwait);
      if (error) co_return;
      waiting_.push_back(boost::beast::buffers_to_string(buffer.data()));
      arrived_.cancel();
    }
  }

  asio::awaitable<std::optional<std::string>> Receive() {
    while (waiting_.empty()) {
      arrived_.expires_at(asio::steady_timer::time_point::max());
      (void)co_await arrived_.async_wait(kAwait);
      const asio::cancellation_state cancelled = co_await asio::this_coro::cancellation_state;
      if (cancelled.cancelled() != asio::cancellation_type::none) co_return std::nullopt;
    }
    std::string message = std::move(waiting_.front());
    waiting_.pop_front();
    co_return message;
  }

  asio::awaitable<bool> Write(std::string message) {
    const auto [error, size] = co_await socket_.async_write(asio::buffer(message), kAwait);
    co_return !error;
  }

  asio::awaitable<void> Handle(const SocketHandler& handler, const Request& request) {
    const server::Receive receive = [this] { return Receive(); };
    const Send send = [this](std::string message) { return Write(std::move(message)); };
    try {
      co_await handler(request, receive, send);
    } catch (const boost::system::system_error&) {
      throw;  // the client has gone
    } catch (const std::exception&) {
      co_return;  // a bug of the handler's costs its own conversation
    }
  }

 private:
  websocket::stream<Stream&> socket_;
  asio::steady_timer arrived_;
  std::deque<std::string> waiting_;
};

}  // namespace

asio::awaitable<void> RunWebSocket(Connection& connection, const RawRequest& raw,
                                   const SocketHandler& handler, const Request& request) {
  Conversation conversation(connection);
  const bool accepted = co_await conversation.Accept(raw);
  if (!accepted) co_return;
  using namespace asio::experimental::awaitable_operators;  // NOLINT: the only way to get operator||
  co_await (conversation.Handle(handler, request) || conversation.ReadAll());
}

}  // namespace probing::server
