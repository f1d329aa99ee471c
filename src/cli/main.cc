// probing: the command line. Also called `probe`, its older name with an older form.
#include <exception>

#include "cli/commands.h"
#include "cli/job.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/remote.h"
#include "process/status.h"
#include "wire/message.h"
#include "wire/rendezvous.h"

namespace probing::cli {
namespace {

constexpr std::int64_t kStartMs = 5000;

// A program that was started with PROBE_BG=0 begins when somebody asks about it, also with a command that
// reads it from outside. No other process is woken up for that.
void TellOfClient(pid_t pid) {
  const Result<std::string> variable = process::StartupEnvironment(pid, "PROBE_BG");
  if (!variable.ok() || *variable != "0") return;
  const Result<process::Status> status = process::ReadStatus(pid);
  if (!status.ok() || status->state == 'T') return;  // a stopped probe does not answer
  const Result<ScopedFd> probe = wire::ConnectToProbe(pid, /*timeout_ms=*/0);
  if (probe.ok()) (void)wire::Call(probe->get(), wire::Message::Request(1, "client"), kStartMs);
}

Result<int> RunForJob(const Parsed& parsed) {
  const EachRankOptions options{.json = parsed.invocation.Has("--json"),
                                .elsewhere = !parsed.command->only_here};
  return ForEachRank(
      *parsed.invocation.job, options,
      [&](const process::RankProcess& rank, const std::optional<Endpoint>& endpoint) -> Result<int> {
        Invocation invocation = parsed.invocation;
        invocation.job.reset();
        invocation.target = rank.pid;
        invocation.endpoint = endpoint;
        if (endpoint) {
          RETURN_IF_ERROR(ChooseRemote(*parsed.command, invocation));
        } else {
          TellOfClient(rank.pid);
        }
        return parsed.command->run(invocation);
      });
}

Result<int> Main(std::string_view program, std::vector<std::string> words) {
  // A wheel cannot carry a link: there `probe` is a script which says who it is (tools/stage.py).
  const bool as_probe = !words.empty() && words[0] == "--as-probe";
  if (as_probe) words.erase(words.begin());
  if (as_probe || program.ends_with("probe")) {
    ASSIGN_OR_RETURN(words, TranslateProbe(words));
  }
  ASSIGN_OR_RETURN(Parsed parsed, ParseCommandLine(std::move(words)));
  if (parsed.help) {
    Print(*parsed.help + (parsed.help->ends_with('\n') ? "" : "\n"));
    return 0;
  }
  if (parsed.invocation.endpoint) {
    RETURN_IF_ERROR(ChooseRemote(*parsed.command, parsed.invocation));
  } else if (parsed.invocation.target) {
    TellOfClient(*parsed.invocation.target);
  }
  if (parsed.invocation.job && parsed.command->for_each_rank != Command::OfJob::kNo) return RunForJob(parsed);
  return parsed.command->run(parsed.invocation);
}

}  // namespace
}  // namespace probing::cli

int main(int argc, char** argv) {
  using namespace probing;
  try {
    const Result<int> code = cli::Main(argc > 0 ? argv[0] : "", {argv + (argc > 0 ? 1 : 0), argv + argc});
    return code.ok() ? *code : cli::PrintError(code.error());
  } catch (const std::exception& e) {
    return cli::PrintError({Code::kFailed, e.what(), "this is a bug of probing"});
  }
}
