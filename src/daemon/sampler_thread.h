// SamplerThread: a recorder on a thread of its own, so that sampling never waits for the daemon's
// event loop nor the loop for it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "observe/stacks/recorder.h"

namespace probing::daemon {

class SamplerThread {
 public:
  struct Options {
    observe::RecorderOptions recorder;
    std::optional<double> seconds;  // nothing: until it is stopped or the process ends
  };

  // `executor` is the daemon's; all members are used from there only.
  // REQUIRES: `roots` has at least one.
  SamplerThread(const boost::asio::any_io_executor& executor, std::vector<observe::Root> roots,
                const Options& options);
  SamplerThread(SamplerThread&&) noexcept = default;
  SamplerThread& operator=(SamplerThread&&) noexcept;
  // Tells the thread to stop and does not wait for it.
  ~SamplerThread();

  // Until the process could be attached to, or not. May be cancelled: then it throws.
  boost::asio::awaitable<Result<void>> Started();
  // Until it does not sample any more.
  boost::asio::awaitable<void> Ended();

  bool is_running() const;
  std::int64_t period_ns() const { return period_ns_; }

  // Shows what was recorded so far; the thread waits meanwhile. Nothing before Started() was ok.
  void Look(const std::function<void(const observe::Recorder&)>& look) const;

 private:
  struct State;
  static std::int64_t LeadNs(const Options& options);
  static void Run(const std::shared_ptr<State>& state, const std::vector<observe::Root>& roots,
                  const Options& options) noexcept;

  std::int64_t period_ns_;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this for a moment
};

}  // namespace probing::daemon
