#include "daemon/series.h"

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <set>

#include "daemon/log.h"
#include "observe/host/crash_event.h"
#include "observe/host/last_words.h"
#include "observe/host/process_table.h"
#include "process/status.h"

namespace probing::daemon {
namespace asio = boost::asio;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr double kLookSeconds = 1;              // for new targets, when nothing is to be written
constexpr std::uint64_t kMaxBytes = 64U << 20;  // for each target; used as it fills

}  // namespace

Series::Series(asio::io_context& io, Targets& targets, const wire::Settings& settings)
    : io_(io), targets_(targets), settings_(settings), host_({}) {
  if (observe::KeepsExitStatus()) return;
  if (Result<observe::ProcConnector> connector = observe::ProcConnector::Open(); connector.ok()) {
    connector_.emplace(std::move(*connector));
  }
}

void Series::Watch() {
  // At once, so that also a target which ends soon is seen to end.
  targets_.OnHello([this] { LookForTargets(); });
  asio::co_spawn(io_, Tick(), asio::detached);
}

asio::awaitable<void> Series::Tick() {
  while (true) {
    LookForTargets();
    const double interval_s = settings_.GetNumber("probing.system.interval");
    if (interval_s > 0) {
      (void)host_.Tick();
      for (const auto& [identity, about] : known_) {
        if (about != nullptr && !about->ended) about->stacks->Look();
      }
    }
    asio::steady_timer timer(io_, std::chrono::milliseconds(static_cast<std::int64_t>(
                                      (interval_s > 0 ? interval_s : kLookSeconds) * 1000)));
    co_await timer.async_wait(kAwait);
  }
}

void Series::LookForTargets() {
  const std::vector<const Target*> targets = targets_.Known();
  std::set<Identity> shown;
  for (const Target* target : targets) shown.emplace(target->pid, target->start_ticks);
  std::erase_if(known_, [&](const auto& entry) {
    if (shown.contains(entry.first)) return false;
    host_.Remove(entry.first.first);  // before its arena goes
    if (entry.second != nullptr) Forget(*entry.second);
    return true;
  });
  for (const Target* target : targets) {
    const auto known = known_.find({target->pid, target->start_ticks});
    if (known == known_.end() && target->state != TargetState::kEnded) {
      known_[{target->pid, target->start_ticks}] = nullptr;  // one try, whatever comes of it
      if (const Result<void> begun = Begin(*target); !begun.ok()) {
        Log(LogLevel::kWarn,
            "nothing is written about target " + std::to_string(target->pid) + ": " + begun.error().message);
      }
    } else if (known != known_.end() && known->second != nullptr && !target->has_series) {
      (void)Show(*target, *known->second->arena);  // it was left and entered again
    }
  }
}

std::shared_ptr<ring::Arena> Series::ArenaOf(pid_t pid, std::uint64_t start_ticks) {
  const auto known = known_.find({pid, start_ticks});
  if (known == known_.end() || known->second == nullptr || known->second->arena == nullptr) return nullptr;
  return {known->second, known->second->arena.get()};
}

void Series::Forget(About& about) {
  about.forgotten = true;
  if (about.end) about.end->cancel();
}

Result<void> Series::Show(const Target& target, const ring::Arena& arena) {
  ScopedFd fd(fcntl(arena.fd(), F_DUPFD_CLOEXEC, 3));
  if (!fd.valid()) return ErrnoError("duplicate the descriptor of a ring");
  targets_.AddRing(target.pid, target.start_ticks, std::move(fd));
  return {};
}

Result<void> Series::Begin(const Target& target) {
  auto about = std::make_shared<About>();
  ASSIGN_OR_RETURN(const process::Status status, process::ReadStatus(target.pid));
  about->name = status.name;
  about->command = target.command;
  about->started_ns = observe::StartedWallNs(target.start_ticks);
  about->stacks.emplace(target.pid);
  ASSIGN_OR_RETURN(about->arena, ring::Arena::Create({.max_memory = kMaxBytes}));
  RETURN_IF_ERROR(host_.Add(target.pid, *about->arena, {.python_memory = true}));
  observe::ExitWatcherOptions options;
  options.connector = connector_ ? &*connector_ : nullptr;
  if (Result<observe::ExitWatcher> watcher = observe::ExitWatcher::Watch(target.pid, options); watcher.ok()) {
    about->exit.emplace(std::move(*watcher));
    asio::co_spawn(io_, AwaitEnd(about, {target.pid, target.start_ticks}), asio::detached);
  }
  known_[{target.pid, target.start_ticks}] = about;
  return Show(target, *about->arena);
}

asio::awaitable<void> Series::AwaitEnd(std::shared_ptr<About> about, Identity identity) {
  if (about->exit->fd() >= 0) {
    about->end.emplace(io_, dup(about->exit->fd()));
    (void)co_await about->end->async_wait(asio::posix::stream_descriptor::wait_read, kAwait);
  }
  std::optional<observe::HowItEnded> how;
  // Kernels without pidfds are asked again and again.
  while (!about->forgotten && !(how = about->exit->Check())) {
    asio::steady_timer timer(io_, std::chrono::milliseconds(100));
    co_await timer.async_wait(kAwait);
  }
  if (about->forgotten) co_return;
  about->ended = true;
  WriteEnd(*about, identity, *how);
}

void Series::WriteEnd(About& about, const Identity& identity, const observe::HowItEnded& how) {
  observe::EndedTarget target;
  target.cmdline = about.command;
  target.name = about.name;
  target.started_ns = about.started_ns;
  for (const Target* known : targets_.Known()) {
    if (Identity(known->pid, known->start_ticks) != identity) continue;
    observe::LastWords words = observe::ReadLastWords(known->ring_fds);
    target.last_step = words.step;
    target.exception = std::move(words.exception);
  }
  Result<void> written = observe::WriteCrashEvent(*about.arena, how, target);
  if (written.ok()) written = about.stacks->Write(*about.arena);
  if (!written.ok()) {
    Log(LogLevel::kWarn, "how " + target.name + " ended was not written: " + written.error().message);
  }
}

}  // namespace probing::daemon
