#include "daemon/serve_file.h"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>

#include "base/clock.h"
#include "daemon/api.h"
#include "daemon/history.h"
#include "daemon/log.h"
#include "daemon/other_hosts.h"
#include "daemon/outlets.h"
#include "daemon/tokens.h"

namespace probing::daemon {
namespace asio = boost::asio;

namespace {

constexpr std::size_t kThreads = 4;

int Fail(const Error& error) {
  std::fprintf(stderr, "probing: %s\n%s%s%s", error.message.c_str(),
               error.hint.empty() ? "" : "  hint: ", error.hint.c_str(), error.hint.empty() ? "" : "\n");
  return static_cast<int>(error.code);
}

// Before anything is served: what is wrong with the file is said to the one who names it.
asio::awaitable<void> Open(Daemon& daemon, wire::Address address, int& code) {
  const Result<std::shared_ptr<const RecordedJob>> job = co_await daemon.queries.Recorded(daemon.file);
  if (!job.ok()) {
    code = Fail(job.error());
    co_return daemon.shutdown();
  }
  for (const std::string& problem : (*job)->problems())
    std::fprintf(stderr, "probing: %s\n", problem.c_str());
  if (const Result<void> opened = daemon.listening.Add(address); !opened.ok()) {
    code = Fail(opened.error());
    co_return daemon.shutdown();
  }
  std::printf("%s\n", daemon.listening.Link(address, server::Right::kRead).c_str());
  std::fflush(stdout);
  std::fputs("the link is good for one visit; ^C ends it\n", stderr);
}

}  // namespace

int ServeFile(const std::string& path, const std::string& text) {
  signal(SIGPIPE, SIG_IGN);
  const Result<wire::Address> address = wire::ParseAddress(text);
  if (!address.ok()) return Fail(address.error());
  wire::Settings settings(wire::Holder::kDaemon);
  (void)settings.LoadEnvironment();
  (void)settings.Set("probing.server.addr", "none");
  (void)settings.Set("probing.cluster.peers", "none");
  SetLogLevel("error");

  asio::io_context io(1);
  asio::thread_pool threads(kThreads);
  Targets targets(io, threads, settings);
  Sampling sampling(io, targets, settings);
  History history(io, targets, settings);
  cluster::Members members(server::MakeSecret(), "");
  OtherHosts hosts(io, targets, members, settings);
  Outlets outlets(io, settings);
  Queries queries(io, targets, sampling, history, outlets, hosts, settings);
  queries.AskOnly(path);
  server::Access access;
  if (const Result<void> loaded = LoadTokens(access); !loaded.ok()) return Fail(loaded.error());
  server::Router router;
  server::HttpServer server(io, router, access);
  Listening listening(io, targets, settings, server, access);
  Daemon daemon{io,        targets, sampling, queries, members,       settings,
                listening, server,  access,   threads, MonotonicNs(), [&io] { io.stop(); },
                path};
  AddFileRoutes(router, daemon);
  server.SetLineHandler([](server::TextState&, const std::string&) -> asio::awaitable<std::string> {
    co_return "error: a file is served over HTTP only\nhint: `probing -t FILE query SQL`\n";
  });
  int code = 0;
  asio::co_spawn(io, Open(daemon, *address, code), asio::detached);
  asio::signal_set signals(io, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code&, int) { daemon.shutdown(); });
  io.run();
  // Suspended coroutines refer to all of the above, in every order: nothing is taken down.
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace probing::daemon
