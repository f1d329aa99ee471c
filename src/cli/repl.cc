// probing repl: Python's prompt, inside of a running process.
#include <unistd.h>

#include <string_view>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/evaluation.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/query_client.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

constexpr double kLineSeconds = 86400;  // ^C ends what takes too long
constexpr double kGilSeconds = 5;       // then the user is told who holds it
constexpr double kCompletionSeconds = 1;
constexpr std::string_view kSql = "!sql";

// What ends a process without asking Python.
bool MayEndTheJob(std::string_view code) {
  for (const std::string_view word : {"os._exit", "os.abort", "os.kill", "signal.raise_signal"}) {
    if (code.find(word) != std::string_view::npos) return true;
  }
  return false;
}

class Repl {
 public:
  explicit Repl(const Invocation& invocation)
      : target_(*invocation.target),
        keep_(invocation.Has("--session")),
        session_(keep_ ? invocation.Get("--session")
                       : "repl-" + std::to_string(getpid()) + "-" + std::to_string(MonotonicNs())),
        prompt_({.history_file = "repl_history",
                 .complete =
                     [this](const std::string& text) { return Ask("complete", text, kCompletionSeconds); },
                 .idle = nullptr}) {}

  Result<int> Run() {
    ASSIGN_OR_RETURN(const Json hello, Ask("hello", "", kGilSeconds));
    if (!hello.contains("value")) return PrintEvaluation(hello);
    if (prompt_.interactive()) {
      PrintAside(hello.value("value", "") + "\n%magics lists helpers, ^C interrupts, ^D leaves\n");
    }
    while (true) {
      Prompt::Input input = prompt_.Read(">>> ", "... ");
      if (input.kind == Prompt::Input::Kind::kEnd) break;
      if (input.kind == Prompt::Input::Kind::kInterrupt) {
        PrintAside("KeyboardInterrupt\n");
        continue;
      }
      if (input.text == "exit" || input.text == "quit" || input.text == "exit()" || input.text == "quit()")
        break;
      Handle(std::move(input.text));
    }
    if (!keep_) (void)Ask("close", "", kCompletionSeconds);
    return last_code_;
  }

 private:
  Result<Json> Ask(const char* op, const std::string& code, double seconds, bool whole = false) const {
    return PostToDaemon(std::string(wire::kEvalRoute),
                        {{"target", target_},
                         {"code", code},
                         {"op", op},
                         {"session", session_},
                         {"whole", whole ? "1" : "0"},
                         {"timeout", seconds},
                         {"gil_timeout", kGilSeconds}},
                        Patience::kEndless);
  }

  void Interrupt() const {
    (void)PostToDaemon(std::string(wire::kInterruptRoute), {{"target", target_}, {"session", session_}});
  }

  void Handle(std::string text) {
    if (text.find_first_not_of(" \t\n") == std::string::npos) return;
    if (text.starts_with('!')) {
      prompt_.Remember(text);
      return Sql(text);
    }
    bool whole = false;
    while (true) {
      if (MayEndTheJob(text) && !prompt_.Confirm("this may end the job; run it? [y/N] ")) {
        PrintAside("not run\n");
        last_code_ = 1;
        return;
      }
      const Result<Json> answer = prompt_.WaitFor(
          [this, text, whole] { return Ask("line", text, kLineSeconds, whole); }, [this] { Interrupt(); });
      if (!answer.ok()) {
        last_code_ = PrintError(answer.error());
        PrintAside("the variables of this session are kept in the target as long as its probe lives\n");
        return;
      }
      if (answer->value("exception", "") != "Incomplete") {
        prompt_.Remember(text);
        last_code_ = PrintEvaluation(*answer);
        return;
      }
      Prompt::Input more = prompt_.ReadMore();
      if (more.kind == Prompt::Input::Kind::kInterrupt) return PrintAside("KeyboardInterrupt\n");
      whole = more.kind == Prompt::Input::Kind::kEnd;
      if (whole && more.text.empty()) return;
      text = std::move(more.text);
    }
  }

  void Sql(const std::string& text) {
    if (!text.starts_with(kSql)) {
      return PrintAside("only `!sql …` is known; programs are run in a shell of your own\n");
    }
    const Result<Json> answer = prompt_.WaitFor(
        [this, sql = text.substr(kSql.size())]() -> Result<Json> {
          ASSIGN_OR_RETURN(const std::string rows, Query({.target = target_, .sql = sql}));
          return Json{{"rows", rows}};
        },
        [] {});
    if (!answer.ok()) {
      last_code_ = PrintError(answer.error());
    } else {
      Print(answer->value("rows", ""));
      last_code_ = 0;
    }
  }

  const pid_t target_;
  const bool keep_;
  const std::string session_;
  Prompt prompt_;
  int last_code_ = 0;
};

Result<int> Run(const Invocation& invocation) { return Repl(invocation).Run(); }

}  // namespace

Command ReplCommand() {
  return {.name = "repl",
          .summary = "Python's prompt inside of a running process",
          .example = "probing -t 1234 repl",
          .target = TargetUse::kRequired,
          .options = {{"--session", "NAME", "keep the variables under this name, or come back to them"}},
          .run = Run};
}

}  // namespace probing::cli
