// probing repl: Python's prompt, inside of a running process.
#include <unistd.h>

#include <string_view>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/evaluation.h"
#include "cli/highlight.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "cli/query_client.h"
#include "cli/repl_client.h"

namespace probing::cli {
namespace {

constexpr double kHelloSeconds = 10;
constexpr double kLineSeconds = 86400;  // ^C ends what takes too long
constexpr double kCompletionSeconds = 1;
constexpr std::string_view kSql = "!sql";

class Repl {
 public:
  explicit Repl(const Invocation& invocation)
      : target_(*invocation.target),
        keep_(invocation.Has("--session")),
        session_(keep_ ? invocation.Get("--session")
                       : "repl-" + std::to_string(getpid()) + "-" + std::to_string(MonotonicNs())),
        client_(target_, session_, invocation.Has("--ipython")),
        prompt_({.history_file = "repl_history",
                 .complete =
                     [this](const std::string& text) { return Ask("complete", text, kCompletionSeconds); },
                 .idle = [this] { return LostConnection(); },
                 .painter = ShowsColours() ? HighlightPython : nullptr}) {}

  Result<int> Run() {
    ASSIGN_OR_RETURN(const Json hello, Ask("hello", "", kHelloSeconds));
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
    return prompt_.interactive() ? 0 : last_code_;  // a person has seen it
  }

 private:
  Result<Json> Ask(const char* op, const std::string& code, double seconds) {
    return client_.Ask({.op = op, .code = code, .timeout_s = seconds});
  }

  // What the code prints is shown while it runs.
  Result<Json> Evaluate(const std::string& code, bool whole, bool confirmed) {
    return prompt_.WaitFor(
        [this, code, whole, confirmed] {
          return client_.Ask({.op = "line",
                              .code = code,
                              .timeout_s = kLineSeconds,
                              .whole = whole,
                              .confirmed = confirmed,
                              .on_output = [](const std::string& out, const std::string& err) {
                                Print(out);
                                PrintAside(err);
                              }});
        },
        [this] { client_.Interrupt(); });
  }

  std::string LostConnection() {
    if (client_.StillThere()) return "";
    return "the connection was lost; the session's variables are kept, and the next line connects again\n";
  }

  void Handle(std::string text) {
    if (text.find_first_not_of(" \t\n") == std::string::npos) return;
    if (text.starts_with('!')) {
      prompt_.Remember(text);
      return Sql(text);
    }
    bool whole = false;
    bool confirmed = false;
    while (true) {
      const Result<Json> answer = Evaluate(text, whole, confirmed);
      if (!answer.ok()) {
        last_code_ = PrintError(answer.error());
        return;
      }
      if (answer->value("exception", "") == "MayEndTheJob" && !confirmed) {
        confirmed = prompt_.Confirm("this may end the job; run it? [y/N] ");
        if (confirmed) continue;
        PrintAside("not run\n");
        last_code_ = 1;
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
        [] { GiveUpRequests(); });
    if (!answer.ok()) {
      last_code_ = PrintError(answer.error());
    } else {
      Print(PaintedTable(answer->value("rows", "")));
      last_code_ = 0;
    }
  }

  const pid_t target_;
  const bool keep_;
  const std::string session_;
  ReplClient client_;
  Prompt prompt_;
  int last_code_ = 0;
};

Result<int> Run(const Invocation& invocation) { return Repl(invocation).Run(); }

}  // namespace

Command ReplCommand() {
  return {.name = "repl",
          .summary = "Open Python's prompt inside a running process",
          .example = "probing -t 1234 repl",
          .target = TargetUse::kRequired,
          .options = {{"--session", "NAME", "keep the variables under this name, or come back to them"},
                      {"--ipython", "", "use the target's IPython, which is imported there"}},
          .run = Run};
}

}  // namespace probing::cli
