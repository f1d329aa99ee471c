#include "daemon/probe_link.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <map>
#include <optional>

#include "process/status.h"
#include "wire/rendezvous.h"

namespace probing::daemon {
namespace asio = boost::asio;

namespace {
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr auto kSignOfLife = std::chrono::seconds(7);

bool IsStopped(pid_t pid) {
  const Result<process::Status> status = process::ReadStatus(pid);
  return status.ok() && (status->state == 'T' || status->state == 't');
}

const Error kGone{Code::kNotFound, "the probe closed the connection", "did the target end?"};
}  // namespace

class ProbeLink::State : public std::enable_shared_from_this<State> {
 public:
  State(const asio::any_io_executor& executor, pid_t pid, ScopedFd fd, std::uint32_t max_frame_bytes)
      : pid_(pid),
        socket_(executor, asio::local::stream_protocol(), fd.Release()),
        decoder_(max_frame_bytes) {}

  void Start() {
    asio::co_spawn(
        socket_.get_executor(), [self = shared_from_this()] { return self->ReadLoop(); }, asio::detached);
  }

  std::uint32_t Send(const wire::Message& request) {
    const std::uint32_t id = next_id_++;
    outbox_ += request.WithId(id).Encode();
    if (!writing_) {
      writing_ = true;
      asio::co_spawn(
          socket_.get_executor(), [self = shared_from_this()] { return self->WriteLoop(); }, asio::detached);
    }
    return id;
  }

  asio::awaitable<Result<wire::Message>> Call(wire::Message request, std::chrono::milliseconds timeout,
                                              OnPartial on_partial) {
    if (!socket_.is_open()) co_return kGone;
    const auto self = shared_from_this();
    Waiter waiter(*this, Send(request), timeout);
    waiter.on_partial = std::move(on_partial);
    const auto until = std::chrono::steady_clock::now() + timeout;
    std::optional<std::uint64_t> heard_before;
    while (true) {
      const auto left = until - std::chrono::steady_clock::now();
      const bool is_last = !ends_if_silent || left <= kSignOfLife;
      waiter.done.expires_after(is_last ? left : std::chrono::steady_clock::duration(kSignOfLife));
      const auto [woken] = co_await waiter.done.async_wait(kAwait);
      if (waiter.finished || (is_last && !woken)) co_return std::move(waiter.answer);
      if (woken) throw boost::system::system_error(woken);  // we were cancelled
      if (heard_before == heard_ && !IsStopped(pid_)) {
        co_return Error{Code::kTimeout, "the probe of process " + std::to_string(pid_) + " does not answer",
                        "`probing doctor " + std::to_string(pid_) + "` tells more"};
      }
      heard_before = heard_;
      (void)Send(wire::Message::Request(0, "hello"));
    }
  }

  asio::awaitable<Result<ScopedFd>> CallForFd(wire::Message request, std::chrono::milliseconds timeout) {
    received_.Reset();
    const Result<wire::Message> answer = co_await Call(std::move(request), timeout, nullptr);
    if (!answer.ok()) co_return answer.error();
    if (!received_.valid()) co_return Error{Code::kFailed, "the probe answered without a descriptor", ""};
    co_return std::move(received_);
  }

  void Close() {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

  std::function<void()> on_gone;
  bool ends_if_silent = false;

 private:
  // A call that waits for its answer; the timer is woken early when the answer is there.
  struct Waiter {
    Waiter(State& state, std::uint32_t id, std::chrono::milliseconds timeout)
        : owner(state), key(id), done(state.socket_.get_executor(), timeout) {
      owner.waiters_[key] = this;
    }
    ~Waiter() { owner.waiters_.erase(key); }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    void Finish(Result<wire::Message> result) {
      answer = std::move(result);
      finished = true;
      done.cancel();
    }

    State& owner;
    std::uint32_t key;
    asio::steady_timer done;
    bool finished = false;
    OnPartial on_partial;
    Result<wire::Message> answer = Error{Code::kTimeout, "the probe did not answer in time",
                                         "is the target stopped? `probing doctor PID` tells"};
  };

  asio::awaitable<void> ReadLoop() {
    const auto self = shared_from_this();
    std::array<char, 16384> bytes;
    while (true) {
      const auto [error] = co_await socket_.async_wait(asio::socket_base::wait_read, kAwait);
      if (error == asio::error::operation_aborted || !socket_.is_open()) break;
      const ssize_t got = wire::ReceiveWithFd(socket_.native_handle(), bytes.data(), bytes.size(), received_);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got <= 0 || !Deliver({bytes.data(), static_cast<std::size_t>(got)})) {
        Close();
        if (on_gone) std::exchange(on_gone, nullptr)();
        break;
      }
    }
    for (const auto& [id, waiter] : waiters_) waiter->Finish(kGone);
  }

  // False when the other end does not keep to the protocol.
  bool Deliver(std::string_view bytes) {
    ++heard_;
    decoder_.Append(bytes);
    while (true) {
      Result<std::optional<wire::Message>> next = decoder_.Next();
      if (!next.ok()) return false;
      if (!next->has_value()) return true;
      wire::Message& message = **next;
      const auto waiter = waiters_.find(message.id());
      if (waiter == waiters_.end()) continue;  // waited for too long
      if (message.Has("partial")) {
        if (waiter->second->on_partial) waiter->second->on_partial(message);
      } else if (std::optional<Error> failure = message.failure()) {
        waiter->second->Finish(std::move(*failure));
      } else {
        waiter->second->Finish(std::move(message));
      }
    }
  }

  asio::awaitable<void> WriteLoop() {
    const auto self = shared_from_this();
    while (!outbox_.empty()) {
      const std::string frames = std::exchange(outbox_, {});
      const auto [error, size] = co_await asio::async_write(socket_, asio::buffer(frames), kAwait);
      if (error) break;  // the reader will notice
    }
    writing_ = false;
  }

  pid_t pid_;
  std::uint64_t heard_ = 0;  // how often something came
  asio::local::stream_protocol::socket socket_;
  wire::Decoder decoder_;
  ScopedFd received_;  // the last one, until an answer takes it
  std::uint32_t next_id_ = 1;
  std::map<std::uint32_t, Waiter*> waiters_;
  std::string outbox_;
  bool writing_ = false;
};

Result<ProbeLink> ProbeLink::Open(const asio::any_io_executor& executor, pid_t pid,
                                  std::uint32_t max_frame_bytes) {
  ASSIGN_OR_RETURN(ScopedFd fd, wire::ConnectToProbe(pid, /*timeout_ms=*/0));
  auto state = std::make_shared<State>(executor, pid, std::move(fd), max_frame_bytes);
  state->Start();
  return ProbeLink(std::move(state));
}

ProbeLink& ProbeLink::operator=(ProbeLink&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

ProbeLink::~ProbeLink() {
  if (state_ == nullptr) return;
  state_->on_gone = nullptr;
  state_->Close();
}

asio::awaitable<Result<wire::Message>> ProbeLink::Call(wire::Message request,
                                                       std::chrono::milliseconds timeout,
                                                       OnPartial on_partial) {
  return state_->Call(std::move(request), timeout, std::move(on_partial));
}

asio::awaitable<Result<ScopedFd>> ProbeLink::CallForFd(wire::Message request,
                                                       std::chrono::milliseconds timeout) {
  return state_->CallForFd(std::move(request), timeout);
}

void ProbeLink::EndIfSilent() { state_->ends_if_silent = true; }

void ProbeLink::OnGone(std::function<void()> callback) { state_->on_gone = std::move(callback); }

}  // namespace probing::daemon
