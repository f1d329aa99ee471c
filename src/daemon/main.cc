// probingd: one per user and host. Finds the probes of running processes and answers questions
// about them on a unix socket; started by `probing` when needed, gone when idle.
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "cluster/members.h"
#include "daemon/api.h"
#include "daemon/api_stalls.h"
#include "daemon/audit.h"
#include "daemon/history.h"
#include "daemon/incident_watch.h"
#include "daemon/job_settings.h"
#include "daemon/log.h"
#include "daemon/outlets.h"
#include "daemon/series.h"
#include "daemon/serve_file.h"
#include "daemon/stalls.h"
#include "daemon/text_commands.h"
#include "daemon/tokens.h"
#include "history/worker.h"
#include "observe/host/kernel_log_table.h"
#include "observe/host/process_table.h"
#include "observe/nccl/ras_tables.h"
#include "observe/stacks/stack_tables.h"
#include "query/worker.h"
#include "server/http_server.h"
#include "wire/contract.h"
#include "wire/rendezvous.h"

namespace probing::daemon {
namespace {

namespace asio = boost::asio;

constexpr off_t kMaxLogBytes = 1 << 20;
constexpr std::int64_t kLockTimeoutMs = 2000;
constexpr std::size_t kThreads = 2;
constexpr auto kLastCalls = std::chrono::milliseconds(100);

bool IsServed() {
  for (const std::string& directory : wire::RuntimeDirectories(geteuid())) {
    if (wire::Connect(directory + "/probingd.sock", geteuid()).ok()) return true;
  }
  return false;
}

// Held for as long as the daemon lives; whoever does not get it is not needed. A daemon that is
// about to end has no socket any more but the lock still: it is waited for.
Result<ScopedFd> TakeLock() {
  ASSIGN_OR_RETURN(const std::string directory, wire::PrepareRuntimeDirectory());
  const std::string path = directory + "/probingd.lock";
  ScopedFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return ErrnoError("open " + path);
  const Deadline deadline = Deadline::AfterMs(kLockTimeoutMs);
  while (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || deadline.passed()) return ErrnoError("lock " + path);
    if (IsServed()) return Error{Code::kFailed, "not needed: another probingd serves this user", ""};
    SleepUs(2000);
  }
  return fd;
}

// Each target takes some descriptors, and so does each query about it. The soft limit of 1024 is for
// programs that use select().
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void TrimLog() {
  struct stat info{};
  const bool is_file = fstat(STDERR_FILENO, &info) == 0 && S_ISREG(info.st_mode);
  if (is_file && info.st_size > kMaxLogBytes) (void)!ftruncate(STDERR_FILENO, 0);
}

asio::awaitable<void> Sleep(asio::io_context& io, std::chrono::nanoseconds duration) {
  asio::steady_timer timer(io, duration);
  (void)co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
}

// Ends the daemon when nobody has needed it for a while.
asio::awaitable<void> LeaveWhenIdle(Daemon& daemon, const server::HttpServer& server,
                                    std::string socket_path) {
  std::int64_t idle_since_ns = MonotonicNs();
  while (true) {
    const auto limit_ns =
        static_cast<std::int64_t>(daemon.settings.GetNumber("probing.daemon.idle_exit") * 1e9);
    const std::int64_t now_ns = MonotonicNs();
    if (server.running() > 0 || daemon.listening.IsAskedFor() || !daemon.targets.Known().empty() ||
        daemon.sampling.running() > 0)
      idle_since_ns = now_ns;
    idle_since_ns = std::max(idle_since_ns, server.last_request_ns());
    const std::int64_t left_ns = idle_since_ns + limit_ns - now_ns;
    if (left_ns <= 0) break;
    // The setting may change and targets may end meanwhile: look again every second.
    co_await Sleep(daemon.io, std::chrono::nanoseconds(std::min<std::int64_t>(left_ns, 1'000'000'000)));
  }
  Log(LogLevel::kInfo, "idle: nothing to watch and nobody asking");
  // Whoever comes now starts another daemon; whoever has connected already is still served.
  unlink(socket_path.c_str());
  do {
    co_await Sleep(daemon.io, kLastCalls);
  } while (server.running() > 0);
  daemon.shutdown();
}

// A probe's thread has all signals blocked, and its job may be bound to some cores: neither is ours.
void ForgetTheProbe() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  cpu_set_t all;
  std::memset(&all, 0xff, sizeof(all));
  sched_setaffinity(0, sizeof(all), &all);
}

int Run() {
  const Result<ScopedFd> lock = TakeLock();
  if (!lock.ok()) {
    Log(LogLevel::kError, lock.error().message);
    return static_cast<int>(lock.error().code);
  }
  TrimLog();
  RaiseFileLimit();
  Result<wire::Listener> listener = wire::Listen("probingd");
  if (!listener.ok()) {
    Log(LogLevel::kError, listener.error().message);
    return static_cast<int>(listener.error().code);
  }
  signal(SIGPIPE, SIG_IGN);

  wire::Settings settings(wire::Holder::kDaemon);
  for (const Error& error : settings.LoadEnvironment())
    Log(LogLevel::kWarn, error.message + "; " + error.hint);
  SetLogLevel(settings.Get("probing.loglevel"));

  asio::io_context io(1);
  asio::thread_pool threads(kThreads);
  Targets targets(io, threads, settings);
  Sampling sampling(io, targets, settings);
  Series series(io, targets, settings);
  Stalls stalls(io, targets, series, settings);
  History history(io, targets, settings);
  cluster::Members members(server::MakeSecret(), TokenForOthers().text);
  OtherHosts hosts(io, targets, members, settings);
  Outlets outlets(io, settings);
  Queries queries(io, targets, sampling, history, outlets, hosts, settings);
  server::Access access;
  if (const Result<void> loaded = LoadTokens(access); !loaded.ok())
    Log(LogLevel::kError, loaded.error().message + "; " + loaded.error().hint);
  server::Router router;
  server::HttpServer server(io, router, access);
  Listening listening(io, targets, settings, server, access);
  Daemon daemon{io,        targets, sampling, queries, members,       settings,
                listening, server,  access,   threads, MonotonicNs(), [&io] {
        io.stop(); }};
  AddRoutes(router, daemon);
  AddStallRoutes(router, daemon, stalls);
  server.SetLineHandler([&](server::TextState& state, const std::string& line) {
    return AnswerLine(daemon, router, state, line);
  });
  server.OnRefusal([](const server::Peer& peer, const Error& error) {
    Audit("refused", {{"by", peer.ToText()}, {"reason", error.message}});
  });
  router.OnRefusal([](const server::Request& request, const Error& error) {
    Audit("refused", {{"by", request.peer}, {"reason", error.message}});
  });
  // A program that waits for its first client. Other hosts' daemons greet this one by themselves: no client.
  router.OnRequest([&](const server::Request& request) -> asio::awaitable<void> {
    if (request.path == wire::kNodeRoute) co_return;
    if (const Result<std::optional<pid_t>> pid = TargetOf(request); pid.ok() && *pid)
      co_await targets.OnClient(**pid);
    if (request.served_at.port == 0) co_return;
    for (const pid_t pid : listening.ServedAt(request.served_at)) co_await targets.OnClient(pid);
  });
  if (const Result<void> opened = listening.Apply(settings); !opened.ok())
    Log(LogLevel::kError, opened.error().message + "; " + opened.error().hint);
  server.Serve(std::move(listener->socket));
  targets.Watch();
  sampling.Watch();
  series.Watch();
  stalls.Watch();
  history.Watch();
  listening.Watch();
  FollowSettingsOfJobs(daemon);
  hosts.Watch();
  outlets.Watch(daemon);
  IncidentWatch incidents(daemon);
  incidents.Watch();
  asio::co_spawn(io, targets.Refresh(), asio::detached);
  asio::co_spawn(io, LeaveWhenIdle(daemon, server, listener->path), asio::detached);
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code&, int) { daemon.shutdown(); });

  Log(LogLevel::kInfo, "probingd " PROBING_VERSION " listens on " + listener->path);
  io.run();
  // Before the lock is given up: the next daemon's socket has the same name.
  unlink(listener->path.c_str());
  Log(LogLevel::kInfo, "probingd ends");
  // Suspended coroutines refer to all of the above, in every order: nothing is taken down.
  _exit(0);
}

}  // namespace
}  // namespace probing::daemon

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
    std::puts("probingd " PROBING_VERSION);
    return 0;
  }
  if (argc == 2 && std::strcmp(argv[1], "--query-worker") == 0) {
    auto sources = probing::observe::StackSources();
    sources.push_back(probing::observe::MakeProcessSource());
    sources.push_back(probing::observe::MakeKernelLogSource());
    for (auto& source : probing::observe::RasSources()) sources.push_back(std::move(source));
    return probing::query::RunWorker(std::move(sources));
  }
  if (argc == 2 && std::strcmp(argv[1], "--history-worker") == 0) return probing::history::RunHistoryWorker();
  if (argc == 4 && std::strcmp(argv[1], "--file") == 0) return probing::daemon::ServeFile(argv[2], argv[3]);
  if (argc == 2 && std::strcmp(argv[1], "--from-probe") == 0) {
    probing::daemon::ForgetTheProbe();
  } else if (argc > 1) {
    std::fputs(
        "probingd has no options but --version: `probing` starts it when needed.\n"
        "Settings: `probing config`, or variables such as PROBING_DAEMON_IDLE_EXIT.\n",
        stderr);
    return 2;
  }
  try {
    return probing::daemon::Run();
  } catch (const std::exception& e) {
    probing::daemon::Log(probing::daemon::LogLevel::kError, e.what());
    return 1;
  }
}
