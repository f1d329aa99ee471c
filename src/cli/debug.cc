// probing debug: holds one thread at a line, or records what passes a line without holding anything.
#include <unistd.h>

#include <atomic>

#include "base/clock.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/dap.h"
#include "cli/debug_client.h"
#include "cli/evaluation.h"
#include "cli/highlight.h"
#include "cli/output.h"
#include "cli/prompt.h"
#include "wire/contract.h"
#include "wire/rendezvous.h"

namespace probing::cli {
namespace {

using State = DebugClient::State;

constexpr std::int64_t kBeatUs = 30'000;
constexpr double kPointSeconds = 30;
constexpr std::string_view kIncomplete = "...\n";  // of debug_words.py

// A person at the debugger's prompt.
class DebugSession {
 public:
  explicit DebugSession(const Invocation& invocation)
      : client_(*invocation.target),
        thread_(invocation.Get("--thread") + (invocation.Has("--full") ? " full" : "")),
        post_mortem_(invocation.Has("--post-mortem")),
        prompt_({.history_file = "debug_history",
                 .complete = nullptr,
                 .idle =
                     [this] {
                       (void)client_.Beat();
                       return std::string();
                     },
                 .painter = ShowsColours() ? HighlightPython : nullptr}) {}

  Result<int> Run() {
    ASSIGN_OR_RETURN(seen_, client_.Beat());
    ASSIGN_OR_RETURN(const DebugClient::Answer attached,
                     client_.Ask(post_mortem_ ? "postmortem" : "attach " + thread_));
    if (attached.refused) {
      return Error{Code::kFailed, TrimmedEnd(attached.text),
                   post_mortem_ ? "" : "try again when it has left"};
    }
    Print(attached.text);
    State state = attached.state;
    while (state != State::kOff) {
      if (state == State::kRunning) {
        ASSIGN_OR_RETURN(state, AwaitStop());
        continue;
      }
      const Prompt::Input input = prompt_.Read("(probing) ", "");
      if (input.kind == Prompt::Input::Kind::kInterrupt) continue;
      const bool leaves = input.kind == Prompt::Input::Kind::kEnd;
      ASSIGN_OR_RETURN(state, Tell(leaves ? "detach" : input.text));
    }
    if (!post_mortem_) PrintAside("the thread goes on\n");
    return 0;
  }

 private:
  static std::string TrimmedEnd(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }

  Result<State> Tell(const std::string& typed) {
    const std::string word = typed.empty() ? last_ : typed;  // Enter alone: the same again
    if (word.empty()) return State::kPaused;
    last_ = word;
    prompt_.Remember(word);
    if (word == "interact") return Interact();
    ASSIGN_OR_RETURN(const DebugClient::Answer answer, AskInBackground(word));
    Show(answer);
    return answer.state;
  }

  // Python's prompt with the names of the frame, until ^D.
  Result<State> Interact() {
    PrintAside("names are those of the frame; ^D comes back to the debugger\n");
    while (true) {
      Prompt::Input input = prompt_.Read(">>> ", "... ");
      State state = State::kPaused;
      while (input.kind == Prompt::Input::Kind::kText) {
        if (input.text.find_first_not_of(" \n") == std::string::npos) break;
        ASSIGN_OR_RETURN(const DebugClient::Answer answer, AskInBackground("interact " + input.text));
        state = answer.state;
        if (answer.refused || answer.text != kIncomplete) {
          prompt_.Remember(input.text);
          Show(answer);
          break;
        }
        input = prompt_.ReadMore();
      }
      if (input.kind == Prompt::Input::Kind::kEnd || state != State::kPaused) return state;
    }
  }

  // The debugger is told meanwhile that we are there, by the prompt's idle().
  Result<DebugClient::Answer> AskInBackground(const std::string& word) {
    Result<DebugClient::Answer> answer = Error{};
    ASSIGN_OR_RETURN(const Json ignored, prompt_.WaitFor(
                                             [&]() -> Result<Json> {
                                               answer = client_.Ask(word);
                                               return Json::object();
                                             },
                                             [] {}));
    if (!answer.ok()) return DebugClient::Answer{State::kPaused, Text(answer.error()), true};
    return answer;
  }

  static std::string Text(const Error& error) {
    return "probing: " + error.message + "\n" + (error.hint.empty() ? "" : "  hint: " + error.hint + "\n");
  }

  static void Show(const DebugClient::Answer& answer) {
    if (answer.refused) {
      PrintAside(answer.text);
    } else {
      Print(answer.text);
    }
  }

  // Until a thread stops. ^C asks it to; ^C again leaves.
  Result<State> AwaitStop() {
    std::atomic<int> interrupts{0};
    const auto wait = [&]() -> Result<Json> {
      while (interrupts.load() < 2) {
        ASSIGN_OR_RETURN(const std::int64_t stops, client_.Beat());
        if (stops > seen_) {
          seen_ = stops;
          return Json{{"stopped", true}};
        }
        SleepUs(kBeatUs);
      }
      return Json{{"stopped", false}};
    };
    const auto interrupt = [&] {
      if (interrupts.fetch_add(1) == 0) {
        PrintAside("it stops at the next line of Python it executes; ^C again leaves\n");
        (void)client_.Ask("pause");
      }
    };
    ASSIGN_OR_RETURN(const Json outcome, prompt_.WaitFor(wait, interrupt));
    if (!outcome.value("stopped", false)) {
      ASSIGN_OR_RETURN(const DebugClient::Answer left, client_.Ask("detach"));
      return left.state;
    }
    ASSIGN_OR_RETURN(const DebugClient::Answer where, client_.Ask("stopped"));
    Print(where.text);
    return where.state;
  }

  const DebugClient client_;
  const std::string thread_;
  const bool post_mortem_;
  Prompt prompt_;
  std::int64_t seen_ = 0;
  std::string last_;
};

// ── points that do not stop ──

Result<int> AskPoints(const Invocation& invocation, const std::string& what, const std::string& arguments) {
  ASSIGN_OR_RETURN(const Json answer, PostToDaemon(std::string(wire::kEvalRoute),
                                                   {{"target", *invocation.target},
                                                    {"code", what},
                                                    {"op", "log"},
                                                    {"arguments", arguments},
                                                    {"timeout", kPointSeconds},
                                                    {"gil_timeout", kGilSeconds}},
                                                   Patience::kEndless));
  return PrintEvaluation(answer);
}

Result<int> AddPoint(const Invocation& invocation, const std::string& kind) {
  const std::vector<std::string>& words = invocation.arguments;
  if (words.size() < 2) {
    return Error{Code::kUsage, "debug " + kind + " needs a place",
                 kind == "log" ? "for example `probing -t PID debug log train.py:42 'loss, lr'`"
                               : "for example `probing -t PID debug " + kind + " train.step`"};
  }
  std::string parts;
  for (const char* part : {"args", "return"}) {
    if (invocation.Has("--" + std::string(part))) parts += (parts.empty() ? "" : ",") + std::string(part);
  }
  const bool nothing_chosen = parts.empty() && !invocation.Has("--locals");
  if (kind == "watch" && nothing_chosen) parts = "args,return";
  std::string expressions = invocation.Get("--locals");
  for (std::size_t i = 2; i < words.size(); ++i) expressions += (expressions.empty() ? "" : ",") + words[i];
  if (kind == "log" && expressions.empty()) {
    return Error{Code::kUsage, "debug log needs expressions", "for example 'loss.item(), lr'"};
  }
  std::string arguments = "kind=" + kind + "\nplace=" + words[1] + "\nparts=" + parts;
  arguments += "\nexpressions=" + expressions + "\nif=" + invocation.Get("--if");
  for (const char* name : {"max", "rate"}) {
    const std::string option = "--" + std::string(name);
    if (!invocation.Has(option)) continue;
    std::string text = invocation.Get(option);
    if (option == "--rate" && text.ends_with("/s")) text.resize(text.size() - 2);
    RETURN_IF_ERROR(AboveZero(option, text));
    arguments += "\n" + std::string(name) + "=" + text;
  }
  if (kind == "trace" && !invocation.Has("--max")) arguments += "\nmax=1";
  return AskPoints(invocation, "add", arguments);
}

Result<int> Run(const Invocation& invocation) {
  if (invocation.Has("--inject") && !wire::ConnectToProbe(*invocation.target).ok()) {
    ASSIGN_OR_RETURN(const int code, InjectCommand().run({.options = {}, .target = invocation.target}));
    if (code != 0) return code;
  }
  const std::string what = invocation.arguments.empty() ? "" : invocation.arguments[0];
  if (what.empty() && invocation.Has("--dap")) return ServeDebugAdapter(invocation);
  if (what.empty()) return DebugSession(invocation).Run();
  if (what == "log" || what == "watch" || what == "trace") return AddPoint(invocation, what);
  if (what == "points") return AskPoints(invocation, "list", "");
  if (what == "remove" && invocation.arguments.size() == 2) {
    return AskPoints(invocation, "remove", "number=" + invocation.arguments[1]);
  }
  return Error{Code::kUsage, "debug does not know \"" + what + "\"",
               "it knows log, watch, trace, points, remove NUMBER|all; alone it pauses a thread"};
}

}  // namespace

Command DebugCommand() {
  return {.name = "debug",
          .summary = "Pause a thread at its line, or record values at a line without pausing",
          .example =
              "probing -t 1234 debug\n"
              "  probing -t 1234 debug log train.py:42 'loss.item(), lr' --rate 10",
          .target = TargetUse::kRequired,
          .arguments = Arguments::kMany,
          .options = {{"WHAT", "", "log FILE:LINE EXPR…, watch FUNC, trace FUNC, points, remove NUMBER|all"},
                      {"--thread", "TID", "the thread to pause (default: the main one)"},
                      {"--full", "", "stop and step also in code of libraries, not only in your own"},
                      {"--post-mortem", "", "look at the last unhandled exception instead"},
                      {"--inject", "", "put a probe into the process first"},
                      {"--dap", "PORT", "serve the Debug Adapter Protocol on this port of localhost; 0: any"},
                      {"--if", "COND", "record only when this is true"},
                      {"--max", "N", "record so many rows, then stop"},
                      {"--rate", "R/s", "record at most so many hits a second (default 1000)"},
                      {"--args", "", "of watch: the arguments"},
                      {"--return", "", "of watch: the value it returns"},
                      {"--locals", "NAMES", "of watch: these variables when it returns"}},
          .run = Run};
}

}  // namespace probing::cli
