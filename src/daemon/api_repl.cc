// The WebSocket of a prompt: {code, …} in, what eval answers out. With {stream: true} what the code prints
// comes while it runs, as {partial: true, stdout, stderr}. {interrupt: true} ends what runs: with a session
// the answer is the interrupted evaluation's own, without one it comes at once.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>

#include "daemon/api_probe.h"
#include "server/http_session.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using server::Request;
using namespace asio::experimental::awaitable_operators;  // NOLINT: the only way to get operator||

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// One message of the client and everything that is sent for it.
// Lifetime: what it is made with outlives it.
class Exchange {
 public:
  Exchange(Daemon& daemon, const Request& connection, pid_t pid, const server::Receive& receive,
           const server::Send& send, std::deque<std::string>& waiting)
      : daemon_(daemon),
        pid_(pid),
        receive_(receive),
        send_(send),
        waiting_(waiting),
        request_(connection),
        news_(daemon.io) {}

  // False when the client has gone.
  asio::awaitable<bool> Run(const std::string& text) {
    request_.body = server::IsTooDeep(text) ? Json() : Json::parse(text, nullptr, false);
    if (!request_.body.is_object()) {
      co_return co_await send_(server::JsonText(
          server::ErrorJson({Code::kUsage, "a message is an object, as in {\"code\": \"1 + 1\"}", ""})));
    }
    id_ = request_.body.value("id", Json());
    const Json session = request_.body.value("session", Json());
    if (session.is_string()) session_ = session.get<std::string>();
    streams_ = request_.body.value("stream", Json(false)) == true;
    request_.body["target"] = pid_;
    request_.query.clear();
    co_await (Work() && SendAll());
    co_return !gone_;
  }

 private:
  void Say(Json message) {
    if (!id_.is_null()) message["id"] = id_;
    outbox_.push_back(server::JsonText(message));
    news_.cancel();
  }

  asio::awaitable<void> Work() {
    ProbeLink::OnPartial on_partial;
    if (streams_) {
      on_partial = [this](const wire::Message& printed) {
        Say({{"partial", true},
             {"stdout", std::string(printed.Get("stdout"))},
             {"stderr", std::string(printed.Get("stderr"))}});
      };
    }
    auto first = co_await (EvaluateAloud(daemon_, request_, std::move(on_partial)) || Interrupted());
    Json answer{{"outcome", "interrupted"}, {"stdout", ""}, {"stderr", ""}};
    if (first.index() == 0) {
      Result<Json>& done = std::get<0>(first);
      answer = done.ok() ? std::move(*done) : server::ErrorJson(done.error());
    }
    done_ = true;
    Say(std::move(answer));
  }

  // Returns when the evaluation is to be given up. What else the client says meanwhile waits for its turn.
  asio::awaitable<void> Interrupted() {
    while (true) {
      std::optional<std::string> text = co_await receive_();
      if (!text) co_return;
      const Json message = server::IsTooDeep(*text) ? Json() : Json::parse(*text, nullptr, false);
      if (!message.is_object() || message.value("interrupt", Json(false)) != true) {
        waiting_.push_back(std::move(*text));
      } else if (session_.empty()) {
        co_return;
      } else {
        wire::Message stop = wire::Message::Request(0, "interrupt");
        (void)co_await AskProbe(daemon_, pid_, std::move(stop.Set("session", session_)));
      }
    }
  }

  // A write is never given up half-way: the stream would be broken.
  asio::awaitable<void> SendAll() {
    while (!done_ || !outbox_.empty()) {
      if (outbox_.empty()) {
        news_.expires_at(asio::steady_timer::time_point::max());
        (void)co_await news_.async_wait(kAwait);
        const asio::cancellation_state state = co_await asio::this_coro::cancellation_state;
        if (state.cancelled() != asio::cancellation_type::none) co_return;
        continue;
      }
      std::string message = std::move(outbox_.front());
      outbox_.pop_front();
      const bool sent = co_await send_(std::move(message));
      if (sent) continue;
      gone_ = true;
      throw boost::system::system_error(asio::error::operation_aborted);  // nobody waits for the evaluation
    }
  }

  Daemon& daemon_;
  const pid_t pid_;
  const server::Receive& receive_;
  const server::Send& send_;
  std::deque<std::string>& waiting_;  // said while another one ran
  Request request_;
  Json id_;
  std::string session_;
  bool streams_ = false;
  std::deque<std::string> outbox_;
  asio::steady_timer news_;
  bool done_ = false;
  bool gone_ = false;
};

}  // namespace

asio::awaitable<void> Repl(Daemon& daemon, const Request& request, const server::Receive& receive,
                           const server::Send& send) {
  const Result<pid_t> pid = RequiredTarget(request);
  if (!pid.ok()) {
    (void)co_await send(server::JsonText(server::ErrorJson(pid.error())));
    co_return;
  }
  std::deque<std::string> waiting;
  while (true) {
    std::string text;
    if (!waiting.empty()) {
      text = std::move(waiting.front());
      waiting.pop_front();
    } else {
      std::optional<std::string> received = co_await receive();
      if (!received) co_return;
      text = std::move(*received);
    }
    Exchange exchange(daemon, request, *pid, receive, send, waiting);
    const bool stays = co_await exchange.Run(text);
    if (!stays) co_return;
  }
}

}  // namespace probing::daemon
