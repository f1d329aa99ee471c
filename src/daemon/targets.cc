#include "daemon/targets.h"

#include <pwd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/file.h"
#include "base/scoped_fd.h"
#include "base/text.h"
#include "daemon/aside.h"
#include "daemon/audit.h"
#include "daemon/discovery.h"
#include "daemon/log.h"
#include "process/status.h"
#include "ring/source.h"
#include "wire/rendezvous.h"

namespace probing::daemon {
namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr auto kHelloTimeout = 24h;     // a stopped process answers when it is continued
constexpr auto kHelloExpected = 100ms;  // any other does so within one
constexpr auto kAskForRank = 3s;
constexpr auto kRolesExpected = 300s;
constexpr auto kClientTold = 5s;
// Rules of one diagnosis ask for collectives several times within a second.
constexpr auto kCollectivesKept = 1s;
constexpr auto kReadCollectives = 2s;
constexpr auto kLookedEverywhere = 1s;  // so long a look is good for those who are in a hurry,
constexpr auto kLookedRecently = 5s;    // and so long while the next is on its way
constexpr auto kRingsTimeout = 5s;
constexpr std::size_t kMaxShownBytes = 4096;  // of a command line; one may be megabytes
constexpr std::size_t kMaxWordBytes = 128;    // of what a probe says about itself

std::string UserName(uid_t uid) {
  const passwd* entry = getpwuid(uid);
  return entry != nullptr ? entry->pw_name : std::to_string(uid);
}

// Whether what a process asks for by its environment counts. Nothing that another user controls may open a
// port here or choose a secret; neither may a container, whose root has our uid 0 and not our rights.
bool MayRequest(const process::Status& status) {
  if (status.effective_uid != geteuid() || status.real_uid != geteuid()) return false;
  for (const char* kind : {"user", "pid", "net"}) {
    const Result<std::string> own = ReadLink(std::string("/proc/self/ns/") + kind);
    const Result<std::string> its = ReadLink("/proc/" + std::to_string(status.pid) + "/ns/" + kind);
    if (own.ok() && (!its.ok() || *own != *its)) return false;
  }
  return true;
}

bool IsAlive(const Target& target) {
  const Result<process::Status> status = process::ReadStatus(target.pid);
  return status.ok() && status->start_ticks == target.start_ticks && !status->ended();
}

asio::awaitable<void> Sleep(asio::io_context& io, std::chrono::milliseconds duration) {
  asio::steady_timer timer(io, duration);
  co_await timer.async_wait(kAwait);
}

}  // namespace

const char* TargetStateName(TargetState state) {
  switch (state) {
    case TargetState::kSilent:
      return "silent";
    case TargetState::kLive:
      return "live";
    case TargetState::kClosing:
      return "closing";
    case TargetState::kEnded:
      return "ended";
  }
  return "";
}

Targets::Targets(asio::io_context& io, asio::thread_pool& threads, const wire::Settings& settings)
    : io_(io), threads_(threads), settings_(settings) {}

bool Targets::Knows(pid_t pid) const {
  const auto found = targets_.find(pid);
  return found != targets_.end() && found->second->state <= TargetState::kLive;
}

Result<void> Targets::Attach(pid_t pid) {
  if (Knows(pid)) return {};
  ASSIGN_OR_RETURN(const process::Status status, process::ReadStatus(pid));
  ASSIGN_OR_RETURN(ProbeLink link, ProbeLink::Open(io_.get_executor(), pid, wire::kMaxShortFrameBytes));
  auto target = std::make_shared<Target>();
  target->pid = pid;
  target->uid = status.effective_uid;
  target->may_request = MayRequest(status);
  target->start_ticks = status.start_ticks;
  target->user = UserName(status.effective_uid);
  target->name = status.name;
  target->command = process::CommandLine(pid).substr(0, kMaxShownBytes);
  target->identity = process::ReadJobIdentity(pid);
  target->link = std::move(link);
  target->link.OnGone([this, weak = std::weak_ptr(target)] {
    if (const TargetPtr gone = weak.lock()) asio::co_spawn(io_, Bury(gone), asio::detached);
  });
  targets_[pid] = target;
  asio::co_spawn(io_, Greet(target), asio::detached);
  return {};
}

asio::awaitable<void> Targets::Greet(TargetPtr target) {
  const Result<wire::Message> hello =
      co_await target->link.Call(wire::Message::Request(0, "hello").Set("ptracer", 1), kHelloTimeout);
  if (!hello.ok()) co_return;  // it ended or left: see Bury
  target->version = std::string(hello->Get("version").substr(0, kMaxWordBytes));
  target->python = std::string(hello->Get("python").substr(0, kMaxWordBytes));
  target->how = std::string(hello->Get("how").substr(0, kMaxWordBytes));
  target->started_ns = hello->GetNumber("started_ns");
  target->waits_for_client = hello->Has("waits");
  // Now, because it stays readable when the target has died.
  Result<ScopedFd> rings = co_await target->link.CallForFd(wire::Message::Request(0, "rings"), kRingsTimeout);
  if (rings.ok()) {
    if (const Result<void> usable = ring::CheckMemoryFile(rings->get()); !usable.ok()) rings = usable.error();
  }
  if (rings.ok()) {
    target->ring_fds.push_back(std::make_shared<const ScopedFd>(std::move(*rings)));
  } else {
    Log(LogLevel::kWarn, "no rows from target " + std::to_string(target->pid) + ": " + rings.error().message);
  }
  if (target->state == TargetState::kSilent) target->state = TargetState::kLive;
  Log(LogLevel::kInfo, "target " + std::to_string(target->pid) + " is here: " + target->command);
  Audit("probed", {{"target", target->pid}, {"how", target->how}, {"command", target->command}});
  if (target->identity.role == process::JobRole::kNone || target->identity.role == process::JobRole::kRank)
    asio::co_spawn(io_, LearnRank(target), asio::detached);
  for (const auto& callback : on_hello_) callback();
}

namespace {

// "dp=0,tp=1". What a launcher said by variables stays.
void AddRoles(std::string_view text, process::JobIdentity& identity) {
  constexpr std::size_t kMostRoles = 16;
  while (!text.empty() && identity.parallel.size() < kMostRoles) {
    std::string_view value = TakePart(text, ',');
    const std::string_view name = TakePart(value, '=');
    std::int64_t rank = 0;
    const bool known =
        std::ranges::any_of(identity.parallel, [&](const auto& each) { return each.first == name; });
    if (!known && !name.empty() && ParseNumber(value, rank)) identity.parallel.emplace_back(name, rank);
  }
}

}  // namespace

// Where no launcher has said it, torch.distributed does once the job has set it up; what part the rank has
// (tensor parallel rank 1) only code in the process knows, some time later.
asio::awaitable<void> Targets::LearnRank(TargetPtr target) {
  const auto until = std::chrono::steady_clock::now() + kRolesExpected;
  while (target->state == TargetState::kLive) {
    const Result<wire::Message> hello =
        co_await target->link.Call(wire::Message::Request(0, "hello"), kHelloTimeout);
    if (!hello.ok()) co_return;
    if (!hello->Get("rank").empty() && target->identity.role == process::JobRole::kNone) {
      // It may have put more into os.environ by now.
      process::JobIdentity identity =
          co_await Aside(io_, threads_, [pid = target->pid] { return process::ReadJobIdentity(pid); });
      if (identity.role == process::JobRole::kNone) {
        identity.role = process::JobRole::kRank;
        identity.launcher = "torch";
        identity.rank = hello->GetNumber("rank");
        identity.world_size = hello->GetNumber("world_size");
        process::NameJob(identity, target->pid);
      }
      target->identity = std::move(identity);
    }
    if (const std::string_view roles = hello->Get("roles"); !roles.empty()) {
      AddRoles(roles, target->identity);
      co_return;
    }
    const bool has_rank = target->identity.role != process::JobRole::kNone;
    if (has_rank && std::chrono::steady_clock::now() > until) co_return;
    co_await Sleep(io_, kAskForRank);
  }
}

asio::awaitable<std::string> Targets::SettingOf(pid_t pid, std::string name,
                                                std::chrono::milliseconds timeout) {
  const auto found = targets_.find(pid);
  if (found == targets_.end() || found->second->state != TargetState::kLive) co_return "";
  const TargetPtr target = found->second;
  const Result<wire::Message> answer =
      co_await target->link.Call(wire::Message::Request(0, "config"), timeout);
  co_return answer.ok() ? std::string(answer->Get(name)) : "";
}

asio::awaitable<void> Targets::OnClient(pid_t pid) {
  if (!Knows(pid)) {
    const Result<std::string> variable = process::StartupEnvironment(pid, "PROBE_BG");
    if (!variable.ok() || *variable != "0" || !Attach(pid).ok()) co_return;
  }
  // A stopped process says nothing, and nobody should wait for it.
  if (const auto status = process::ReadStatus(pid); !status.ok() || status->state == 'T') co_return;
  const TargetPtr target = targets_.at(pid);
  const auto until = target->attached + kClientTold;
  while (target->state == TargetState::kSilent && std::chrono::steady_clock::now() < until)
    co_await Sleep(io_, 1ms);
  if (!target->waits_for_client) co_return;
  const Result<wire::Message> told =
      co_await target->link.Call(wire::Message::Request(0, "client"), kClientTold);
  if (told.ok()) target->waits_for_client = false;
}

asio::awaitable<void> Targets::OnNotServed(pid_t pid, std::string reason) {
  const auto found = targets_.find(pid);
  if (found == targets_.end() || !found->second->waits_for_client) co_return;
  const TargetPtr target = found->second;
  const wire::Message message = wire::Message::Request(0, "client").Set("reason", reason);
  const Result<wire::Message> told = co_await target->link.Call(message, kClientTold);
  if (told.ok()) target->waits_for_client = false;
}

asio::awaitable<void> Targets::ReadCollectivesOf(TargetPtr target, std::shared_ptr<std::size_t> waiting) {
  (void)co_await target->link.Call(wire::Message::Request(0, "collectives"), kReadCollectives);
  --*waiting;
}

asio::awaitable<void> Targets::ReadCollectives(std::optional<pid_t> pid) {
  const auto now = std::chrono::steady_clock::now();
  const auto waiting = std::make_shared<std::size_t>(0);  // shared with the coroutines that ask
  for (const auto& [number, target] : targets_) {
    if (target->state != TargetState::kLive || (pid && *pid != number)) continue;
    if (now - target->collectives_read < kCollectivesKept) continue;
    target->collectives_read = now;
    ++*waiting;
    asio::co_spawn(io_, ReadCollectivesOf(target, waiting), asio::detached);
  }
  while (*waiting > 0 && std::chrono::steady_clock::now() - now < kReadCollectives) co_await Sleep(io_, 5ms);
}

asio::awaitable<void> Targets::Bury(TargetPtr target) {
  target->state = TargetState::kClosing;
  // A dying process closes its sockets some time before it is gone.
  for (int i = 0; i < 50 && IsAlive(*target); ++i) co_await Sleep(io_, 10ms);
  const auto found = targets_.find(target->pid);
  if (found == targets_.end() || found->second != target) co_return;
  if (IsAlive(*target)) {
    Log(LogLevel::kInfo, "target " + std::to_string(target->pid) + " has no probe any more");
    targets_.erase(target->pid);
    co_return;
  }
  Log(LogLevel::kInfo, "target " + std::to_string(target->pid) + " ended");
  target->state = TargetState::kEnded;
  // Long enough for somebody to ask what happened.
  co_await Sleep(io_, std::chrono::milliseconds(
                          static_cast<std::int64_t>(settings_.GetNumber("probing.keep_ended") * 1000)));
  if (const auto again = targets_.find(target->pid); again != targets_.end() && again->second == target) {
    targets_.erase(again);
  }
}

void Targets::AttachTo(const std::string& socket_path) {
  if (const auto known = pid_by_path_.find(socket_path); known != pid_by_path_.end()) {
    if (Knows(known->second)) return;
    pid_by_path_.erase(known);
  }
  const Result<pid_t> pid = ListenerOf(socket_path);
  if (!pid.ok()) {
    Log(LogLevel::kDebug, "skipping a socket: " + pid.error().message);
    return;
  }
  if (const Result<void> attached = Attach(*pid); !attached.ok()) {
    Log(LogLevel::kDebug, "skipping " + socket_path + ": " + attached.error().message);
    return;
  }
  pid_by_path_[socket_path] = *pid;
}

// Milliseconds where there are many processes, of which the daemon's own thread has no time to lose.
asio::awaitable<void> Targets::LookEverywhere() {
  looked_everywhere_ = std::chrono::steady_clock::now();
  for (const std::string& path : co_await Aside(io_, threads_, FindProbeSockets)) AttachTo(path);
}

asio::awaitable<void> Targets::Refresh(Look look) {
  const auto ago = std::chrono::steady_clock::now() - looked_everywhere_;
  if (look == Look::kEverywhere || ago > kLookedRecently) {
    co_await LookEverywhere();
    ReadTitles();
  } else {
    if (ago > kLookedEverywhere) asio::co_spawn(io_, LookEverywhere(), asio::detached);
    for (const std::string& path : FindOwnProbeSockets()) AttachTo(path);
  }
  while (true) {
    const auto since = std::chrono::steady_clock::now() - kHelloExpected;
    const bool waiting = std::any_of(targets_.begin(), targets_.end(), [since](const auto& entry) {
      return entry.second->state == TargetState::kSilent && entry.second->attached > since;
    });
    if (!waiting) co_return;
    co_await Sleep(io_, 1ms);
  }
}

// Programs write what they do over their command lines: VLLM::EngineCore, ray::Actor.method.
void Targets::ReadTitles() {
  for (const auto& [pid, target] : targets_) {
    if (target->state != TargetState::kLive) continue;
    std::string command = process::CommandLine(pid).substr(0, kMaxShownBytes);
    if (command.empty()) continue;
    target->identity.title = process::TitleIn(command);
    target->command = std::move(command);
  }
}

void Targets::Watch() { asio::co_spawn(io_, FollowDirectories(), asio::detached); }

asio::awaitable<void> Targets::FollowDirectories() {
  ScopedFd inotify(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!inotify.valid()) {
    Log(LogLevel::kWarn, "no inotify: new targets are found when somebody asks");
    co_return;
  }
  std::map<int, std::string> directory_by_watch;
  for (const std::string& directory : wire::OwnRuntimeDirectories()) {
    // Sockets are published by rename.
    const int watch = inotify_add_watch(inotify.get(), directory.c_str(), IN_MOVED_TO | IN_ONLYDIR);
    if (watch >= 0) directory_by_watch[watch] = directory;
  }
  asio::posix::stream_descriptor events(io_, inotify.Release());
  alignas(inotify_event) std::array<char, 4096> buffer;
  while (true) {
    const auto [error, size] = co_await events.async_read_some(asio::buffer(buffer), kAwait);
    if (error) co_return;
    for (std::size_t at = 0; at < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
      at += sizeof(inotify_event) + event->len;
      const std::string name = event->len > 0 ? event->name : "";
      if (name.ends_with(".sock") && name != "probingd.sock") {
        AttachTo(directory_by_watch[event->wd] + "/" + name);
      }
    }
  }
}

void Targets::AddRing(pid_t pid, std::uint64_t start_ticks, ScopedFd fd) {
  const auto found = targets_.find(pid);
  if (found == targets_.end() || found->second->start_ticks != start_ticks) return;
  found->second->ring_fds.push_back(std::make_shared<const ScopedFd>(std::move(fd)));
  found->second->has_series = true;
}

void Targets::AddProfile(pid_t pid, std::vector<std::shared_ptr<const ScopedFd>> rings, ScopedFd trace) {
  const auto found = targets_.find(pid);
  if (found == targets_.end()) return;
  Target& target = *found->second;
  for (const auto& ring : rings) target.ring_fds.push_back(ring);
  target.trace = std::move(trace);
  target.profiles.push_back(std::move(rings));
  if (target.profiles.size() <= kMostProfiles) return;
  for (const auto& oldest : target.profiles.front()) std::erase(target.ring_fds, oldest);
  target.profiles.pop_front();
}

void Targets::Forget(pid_t pid) { targets_.erase(pid); }

std::vector<const Target*> Targets::Shown() const {
  std::vector<const Target*> shown;
  for (const auto& [pid, target] : targets_) {
    if (target->state != TargetState::kClosing) shown.push_back(target.get());
  }
  return shown;
}

std::vector<const Target*> Targets::Known() const {
  std::vector<const Target*> known;
  for (const auto& [pid, target] : targets_) known.push_back(target.get());
  return known;
}

std::size_t Targets::live() const {
  return static_cast<std::size_t>(std::count_if(targets_.begin(), targets_.end(), [](const auto& entry) {
    return entry.second->state <= TargetState::kLive;
  }));
}

bool Targets::HasEnded(pid_t pid) const {
  const auto found = targets_.find(pid);
  return found != targets_.end() && found->second->state == TargetState::kEnded;
}

}  // namespace probing::daemon
