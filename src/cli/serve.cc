// probing serve: opens an address for browsers, curl, nc and `probing -t host:port`.
#include <unistd.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/installation.h"
#include "cli/output.h"
#include "cli/recording.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

constexpr const char* kDefaultAddress = "127.0.0.1:3344";
constexpr std::int64_t kLookNs = 1'000'000'000;

// A probingd of its own, in place of this program: what a file says is kept apart from what lives here.
Result<int> ServeFile(const std::string& word, const std::string& address) {
  ASSIGN_OR_RETURN(const std::string path, ParseDirectory(word));
  ASSIGN_OR_RETURN(const std::string program, FindDaemon());
  execl(program.c_str(), "probingd", "--file", path.c_str(), address.c_str(), nullptr);
  return ErrnoError("start " + program);
}

Result<int> Run(const Invocation& invocation) {
  std::string address = invocation.Get("--listen");
  if (address.empty()) address = kDefaultAddress;
  if (!invocation.arguments.empty()) {
    if (invocation.Has("--background") || invocation.Has("--close") || invocation.Has("--json"))
      return Error{Code::kUsage, "a file is served until ^C", "leave out the other options"};
    return ServeFile(invocation.arguments[0], address);
  }
  const std::string route(wire::kListenRoute);
  if (invocation.Has("--close")) {
    RETURN_IF_ERROR(PostToDaemon(route, {{"address", address}, {"close", true}}));
    return 0;
  }
  ASSIGN_OR_RETURN(const Json served, PostToDaemon(route, {{"address", address}}));
  if (invocation.Has("--json")) {
    Print(FormatJson(served));
  } else {
    Print(served.value("link", "") + "\n");
    if (const std::string fingerprint = served.value("fingerprint", ""); !fingerprint.empty())
      PrintAside("other machines see the certificate " + fingerprint + "\n");
    PrintAside(
        "the link is good for one visit; programs of this user need none, others a token (`probing "
        "token`)\n");
  }
  if (invocation.Has("--background")) return 0;
  PrintAside("^C ends it\n");
  CatchInterrupts();
  while (!Interrupted()) {
    const Deadline next = Deadline::AfterNs(kLookNs);
    while (!next.passed() && !Interrupted()) SleepUs(20'000);
    // A daemon that was replaced knows nothing of it.
    if (!Interrupted()) RETURN_IF_ERROR(PostToDaemon(route, {{"address", address}, {"quiet", true}}));
  }
  RETURN_IF_ERROR(PostToDaemon(route, {{"address", address}, {"close", true}}));
  return 0;
}

}  // namespace

Command ServeCommand() {
  return {.name = "serve",
          .summary = "Serve the web page, the HTTP API and text for nc on an address",
          .example = "probing serve --listen 127.0.0.1:3344",
          .arguments = Arguments::kOne,
          .options = {{"FILE", "", "serve an incident, or another recording, instead of the processes here"},
                      {"--listen", "ADDRESS", "HOST:PORT or PORT (127.0.0.1:3344)"},
                      {"--background", "", "go on serving when this command has ended"},
                      {"--close", "", "stop serving the address"},
                      {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
