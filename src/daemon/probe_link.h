// A connection from probingd to one probe, used by coroutines of one thread.
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "wire/message.h"

namespace probing::daemon {

class ProbeLink {
 public:
  // Connects to the probe inside `pid`; kNotFound when it has none. Never waits. Of what the probe says no
  // message may be longer than `max_frame_bytes`: it is kept here until it is whole.
  static Result<ProbeLink> Open(const boost::asio::any_io_executor& executor, pid_t pid,
                                std::uint32_t max_frame_bytes);

  ProbeLink() = default;
  ProbeLink(ProbeLink&&) noexcept = default;
  ProbeLink& operator=(ProbeLink&&) noexcept;
  // Closes the connection; calls that still wait get an error.
  ~ProbeLink();

  // Sends a request (its id is chosen here) and waits for the answer. A failure the probe
  // reports is the Error. May be cancelled: then it throws, as awaitables do. Messages that come before the
  // answer, with the field `partial`, are given to `on_partial`.
  using OnPartial = std::function<void(const wire::Message&)>;
  boost::asio::awaitable<Result<wire::Message>> Call(wire::Message request, std::chrono::milliseconds timeout,
                                                     OnPartial on_partial = nullptr);

  // The same for an answer that comes with a descriptor.
  boost::asio::awaitable<Result<ScopedFd>> CallForFd(wire::Message request,
                                                     std::chrono::milliseconds timeout);

  // From now on a call also ends when the probe is silent for too long although its process runs: it is asked
  // for a sign of life in between. For calls that may take hours.
  void EndIfSilent();

  // Called once when the probe has closed its end, not when we close ours.
  void OnGone(std::function<void()> callback);

 private:
  class State;
  explicit ProbeLink(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;  // shared with the coroutines that read and write
};

}  // namespace probing::daemon
