#include "daemon/sampler_thread.h"

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace probing::daemon {
namespace asio = boost::asio;

namespace {

// Something that happens once, waited for by coroutines of one thread.
class Event {
 public:
  explicit Event(const asio::any_io_executor& executor)
      : timer_(executor, asio::steady_timer::time_point::max()) {}

  bool happened() const { return happened_; }
  void Happen() {
    happened_ = true;
    timer_.cancel();
  }
  asio::awaitable<void> Wait() {
    if (!happened_) (void)co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
    // Neither it happened nor the timer will ever fire: whoever waits was cancelled.
    if (!happened_) throw boost::system::system_error(asio::error::operation_aborted);
  }

 private:
  asio::steady_timer timer_;
  bool happened_ = false;
};

}  // namespace

struct SamplerThread::State {
  explicit State(const asio::any_io_executor& executor)
      : executor(executor), started(executor), ended(executor) {}

  asio::any_io_executor executor;
  std::atomic<bool> stop = false;
  std::mutex mutex;                           // of the two below
  std::optional<observe::Recorder> recorder;  // filled by the thread
  std::optional<Error> error;                 // why there is none
  Event started;                              // these two belong to the daemon's thread
  Event ended;
};

SamplerThread::SamplerThread(const asio::any_io_executor& executor, std::vector<observe::Root> roots,
                             const Options& options)
    : period_ns_(static_cast<std::int64_t>(1e9 / options.recorder.hz)),
      state_(std::make_shared<State>(executor)) {
  std::thread([state = state_, roots = std::move(roots), options] { Run(state, roots, options); }).detach();
}

SamplerThread& SamplerThread::operator=(SamplerThread&& other) noexcept {
  if (this == &other) return *this;
  if (state_) state_->stop = true;
  period_ns_ = other.period_ns_;
  state_ = std::move(other.state_);
  return *this;
}

SamplerThread::~SamplerThread() {
  if (state_) state_->stop = true;
}

// Until the moment from which the seconds count.
std::int64_t SamplerThread::LeadNs(const Options& options) {
  return options.recorder.start_ns == 0 ? 0 : options.recorder.start_ns - MonotonicNs();
}

void SamplerThread::Run(const std::shared_ptr<State>& state, const std::vector<observe::Root>& roots,
                        const Options& options) noexcept {
  Result<observe::Recorder> recorder = observe::Recorder::StartAll(roots, options.recorder);
  {
    const std::lock_guard lock(state->mutex);
    if (recorder.ok()) {
      state->recorder.emplace(std::move(*recorder));
    } else {
      state->error = recorder.error();
    }
  }
  asio::post(state->executor, [state] { state->started.Happen(); });
  const std::optional<Deadline> deadline =
      options.seconds ? std::optional(Deadline::AfterNs(LeadNs(options) +
                                                        static_cast<std::int64_t>(*options.seconds * 1e9)))
                      : std::nullopt;
  while (state->recorder && !state->stop && !(deadline && deadline->passed())) {
    {
      const std::lock_guard lock(state->mutex);
      if (!state->recorder->Sample()) break;
    }
    state->recorder->Wait();
  }
  asio::post(state->executor, [state] { state->ended.Happen(); });
}

asio::awaitable<Result<void>> SamplerThread::Started() {
  const std::shared_ptr<State> state = state_;
  co_await state->started.Wait();
  const std::lock_guard lock(state->mutex);
  if (state->error) co_return *state->error;
  co_return Result<void>();
}

asio::awaitable<void> SamplerThread::Ended() {
  const std::shared_ptr<State> state = state_;
  co_await state->ended.Wait();
}

bool SamplerThread::is_running() const { return !state_->ended.happened(); }

void SamplerThread::Look(const std::function<void(const observe::Recorder&)>& look) const {
  const std::lock_guard lock(state_->mutex);
  if (state_->recorder) look(*state_->recorder);
}

}  // namespace probing::daemon
