// The web page, and what `curl` gets where there is none.
#include "daemon/api.h"
#include "server/static_files.h"

namespace probing::daemon {
namespace asio = boost::asio;

namespace {

// For people who came with curl to a probingd that was built without the page.
std::string Overview(const Daemon& daemon) {
  std::string text = "probingd " PROBING_VERSION "\n\n";
  for (const Target* target : daemon.targets.Shown()) {
    text += std::to_string(target->pid) + "  " + TargetStateName(target->state) + "  " +
            target->command.substr(0, 100) + "\n";
  }
  return text +
         "\n/api/v1/targets                     what is probed here\n"
         "/api/v1/backtrace?target=PID        where its threads are\n"
         "/api/v1/openapi.json                everything else\n"
         "/metrics                            for Prometheus\n"
         "\nThe same port speaks plain text: `nc HOST PORT`, then `help`.\n";
}

asio::awaitable<Result<server::Content>> Get(Daemon& daemon, const server::Request& request) {
  Result<server::Content> file = server::ServeFile(server::StaticFiles(), request);
  if (!file.ok() && request.path == "/") {
    co_await daemon.targets.Refresh();
    co_return server::Content{"text/plain; charset=utf-8", Overview(daemon), 200, {}};
  }
  co_return file;
}

}  // namespace

void AddWebPage(server::Router& router, Daemon& daemon) {
  router.AnswerLinks("/");  // the page itself; what it shows, it asks for
  router.SetFiles([&](const server::Request& request) { return Get(daemon, request); });
}

}  // namespace probing::daemon
