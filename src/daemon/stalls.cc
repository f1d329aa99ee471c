#include "daemon/stalls.h"

#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <set>

#include "base/clock.h"
#include "daemon/log.h"
#include "server/router.h"

namespace probing::daemon {
namespace asio = boost::asio;
using observe::Stall;
using observe::ToCell;

namespace {

constexpr auto kEvery = std::chrono::milliseconds(200);
constexpr std::uint64_t kRows = 2000;
constexpr std::int64_t kCloserNs = 1'000'000'000;  // after an event
constexpr std::array<std::string_view, 16> kColumns{
    "kind",     "duration",        "tid",   "thread_name", "func",   "file",  "lineno", "why",
    "cpu_wait", "waiting_threads", "stack", "before",      "stacks", "looks", "ended",  "left_out"};

std::string PartsText(const Stall& stall) {
  server::Json list = server::Json::array();
  for (const Stall::Part& part : stall.parts) {
    list.push_back({{"at", static_cast<double>(part.offset_ns) / 1e9},
                    {"seconds", static_cast<double>(part.duration_ns) / 1e9},
                    {"stack", part.stack}});
  }
  return list.empty() ? "" : server::JsonText(list);
}

}  // namespace

Stalls::Stalls(asio::io_context& io, Targets& targets, Series& series, const wire::Settings& settings)
    : io_(io), targets_(targets), series_(series), settings_(settings) {}

void Stalls::Watch() {
  targets_.OnHello([this] { FollowTargets(); });
  asio::co_spawn(io_, Tick(), asio::detached);
}

asio::awaitable<void> Stalls::Tick() {
  while (true) {
    FollowTargets();
    for (const Target* target : targets_.Known()) {
      const Identity identity(target->pid, target->start_ticks);
      if (const auto found = watched_.find(identity); found != watched_.end())
        Collect(identity, *target, found->second);
    }
    AddLateRanks();
    asio::steady_timer timer(io_, kEvery);
    (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

void Stalls::FollowTargets() {
  const double limit = settings_.GetNumber("probing.stalls.limit");
  std::set<Identity> known;
  for (const Target* target : targets_.Known()) {
    // A process of another user is looked at when root asks, and not on its own account.
    if (target->uid != geteuid()) continue;
    const Identity identity(target->pid, target->start_ticks);
    known.insert(identity);
    if (target->state != TargetState::kLive) continue;
    Watched& watched = watched_[identity];
    // Python may come late to a process: its probe says when.
    const bool is_due = !watched.thread || watched.limit != limit ||
                        (!watched.thread->is_running() && !target->python.empty() && watched.limit == 0);
    if (!is_due) continue;
    watched.thread.reset();
    watched.limit = limit;
    if (limit == 0) {
      watched.events.reset();
      continue;
    }
    watched.thread.emplace(target->pid,
                           observe::StallOptions{.limit_ns = static_cast<std::int64_t>(limit * 1e9)});
    // Now, not at the first look: what the program says right after `inject` is not lost.
    if (!watched.events) watched.events.emplace(WallNs());
  }
  std::erase_if(watched_, [&](const auto& entry) { return !known.contains(entry.first); });
}

void Stalls::Collect(const Identity& identity, const Target& target, Watched& watched) {
  if (!watched.thread || !watched.events) return;
  for (const Stall& stall : watched.thread->Take()) Write(identity, watched, stall);
  const StallEvents::Limits limits{
      .step_factor = settings_.GetNumber("probing.stalls.step_factor"),
      .limit_ns = static_cast<std::int64_t>(watched.limit * 1e9),
      .exceptions = std::string(settings_.Get("probing.stalls.exceptions")),
      .metrics = std::string(settings_.Get("probing.stalls.metrics")),
  };
  for (StallEvents::Event& event : watched.events->Read(target.ring_fds, limits)) {
    watched.thread->Explain(event.stall, event.usual_ns);
    if (event.stall.duration_ns == 0) watched.thread->LookCloser(MonotonicNs() + kCloserNs);
    WriteWithin(identity, watched, std::move(event.stall));
  }
  const std::int64_t now_ns = MonotonicNs();
  for (LateRanks::Arrival& arrival : watched.events->TakeArrivals()) {
    arrival.job = target.identity.JobName();
    arrival.who = identity;
    arrival.rank = target.identity.rank ? "rank " + std::to_string(*target.identity.rank)
                                        : "process " + std::to_string(target.pid);
    late_ranks_.Add(arrival, now_ns);
  }
}

void Stalls::AddLateRanks() {
  const auto limit_ns = static_cast<std::int64_t>(settings_.GetNumber("probing.stalls.limit") * 1e9);
  for (const LateRanks::Late& late : late_ranks_.Take(MonotonicNs(), limit_ns)) {
    const auto found = watched_.find(late.who);
    if (limit_ns == 0 || found == watched_.end() || !found->second.thread) continue;
    Stall stall{.kind = "collective", .start_ns = late.first_ns - WallNs() + MonotonicNs()};
    stall.duration_ns = late.last_ns - late.first_ns;
    stall.why = late.why;
    found->second.thread->Explain(stall, 0);
    WriteWithin(found->first, found->second, std::move(stall));
  }
}

Result<void> Stalls::Add(pid_t pid, Stall stall) {
  for (auto& [identity, watched] : watched_) {
    if (identity.first != pid || !watched.thread) continue;
    watched.thread->Explain(stall, 0);
    watched.thread->LookCloser(MonotonicNs() + kCloserNs);
    Write(identity, watched, stall);
    return {};
  }
  return Error{Code::kNotFound, "process " + std::to_string(pid) + " is not watched for stalls",
               "it needs a probe, and `probing config probing.stalls.limit=0.05`"};
}

void Stalls::WriteWithin(const Identity& identity, Watched& watched, Stall stall) {
  if (!watched.rows.Take(MonotonicNs())) return;
  stall.left_out = watched.rows.TakeLeftOut();
  Write(identity, watched, stall);
}

void Stalls::Write(const Identity& identity, Watched& watched, const Stall& stall) {
  const std::shared_ptr<ring::Arena> arena = series_.ArenaOf(identity.first, identity.second);
  if (arena == nullptr) return;
  if (!watched.table || watched.arena != arena) {
    watched.table.reset();
    watched.arena = arena;
    Result<observe::SeriesTable> table = observe::SeriesTable::Add(*arena, "python.stalls", kColumns, kRows);
    if (!table.ok()) return Log(LogLevel::kWarn, "python.stalls: " + table.error().message);
    watched.table.emplace(std::move(*table));
  }
  const auto seconds = [](std::int64_t ns) { return ring::Cell::Double(static_cast<double>(ns) / 1e9); };
  const std::string parts = PartsText(stall);
  const ring::Cell line = stall.line.line > 0 ? ring::Cell::Int(stall.line.line) : ring::Cell::Null();
  const auto text = [](const std::string& value) { return ToCell(std::string_view(value)); };
  watched.table->Write(
      stall.start_ns + WallNs() - MonotonicNs(),
      std::array<ring::Cell, kColumns.size()>{
          text(stall.kind), seconds(stall.duration_ns),
          stall.tid == 0 ? ring::Cell::Null() : ring::Cell::Int(stall.tid), text(stall.thread_name),
          text(stall.line.function), text(stall.line.file), line, text(stall.why), seconds(stall.cpu_wait_ns),
          ring::Cell::Int(stall.waiting_threads), text(stall.stack), text(stall.before), text(parts),
          ring::Cell::Int(stall.looks), ring::Cell::Bool(stall.has_ended),
          ring::Cell::Int(static_cast<std::int64_t>(stall.left_out))});
}

}  // namespace probing::daemon
