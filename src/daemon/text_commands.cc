#include "daemon/text_commands.h"

#include "base/quote.h"
#include "base/text.h"
#include "base/visible.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Content;
using server::Json;
using server::Request;

namespace {

constexpr const char* kHelp =
    "list                  what is probed here\n"
    "use PID               whom the rest is about; needed when there are several\n"
    "bt [PID]              where its threads are (all targets without PID)\n"
    "eval CODE             run Python code in it\n"
    "config [NAME[=VALUE]] its settings\n"
    "status                how it is\n"
    "tables [TABLE]        what can be asked for\n"
    "token TOKEN           who you are, when you are not recognised\n"
    "quit\n"
    "Everything else is SQL, one statement on each line: SELECT func, lineno FROM python.backtrace\n";

std::string FailureText(const Json& body) {
  const Json error = body.is_object() ? body.value("error", Json::object()) : Json::object();
  const std::string hint = error.value("hint", "");
  return "error: " + error.value("message", "this did not work") + "\n" +
         (hint.empty() ? "" : "hint: " + hint + "\n");
}

std::string ErrorText(const Error& error) {
  return "error: " + error.message + "\n" + (error.hint.empty() ? "" : "hint: " + error.hint + "\n");
}

std::string EndLine(std::string text) {
  if (!text.empty() && !text.ends_with('\n')) text += '\n';
  return text;
}

Request RequestOf(const server::TextState& state, std::string method, std::string_view path) {
  Request request;
  request.method = std::move(method);
  request.path = std::string(path);
  request.right = state.right;
  request.peer = state.peer;
  request.served_at = state.served_at;
  request.body = Json::object();
  return request;
}

// The chosen target, or the only one.
Result<pid_t> ChosenTarget(const std::vector<pid_t>& pids, const server::TextState& state) {
  if (!state.target.empty()) return static_cast<pid_t>(std::stol(state.target));
  if (pids.size() == 1) return pids[0];
  if (pids.empty())
    return Error{Code::kNotFound, "nothing is probed here", "`probing -t PID inject` probes a process"};
  return Error{Code::kUsage, "there are several targets", "say `use PID`; `list` shows them"};
}

std::string EvalText(const Json& answer) {
  std::string text = EndLine(answer.value("stdout", "")) + EndLine(answer.value("stderr", ""));
  if (answer.contains("value")) text += EndLine(answer.value("value", ""));
  text += EndLine(answer.value("traceback", ""));
  text = TerminalSafe(text);
  const std::string outcome = answer.value("outcome", "ok");
  if (outcome != "ok" && outcome != "raised")
    text += "error: " + outcome + ": " + answer.value("note", "") + "\n";
  return text;
}

std::string SettingsText(const Json& answer, const std::string& only) {
  std::string text;
  for (const Json& setting : answer.value("settings", Json::array())) {
    const std::string name = setting.value("name", "");
    if (only.empty() || only == name) text += name + " = " + setting.value("value", "") + "\n";
  }
  return text;
}

std::string StatusText(const Json& answer) {
  std::string text;
  for (const auto& [name, value] : answer.items()) {
    if (value.is_object()) {
      text += StatusText(value);
    } else {
      text += name + ": " + (value.is_string() ? Visible(value.get<std::string>()) : value.dump()) + "\n";
    }
  }
  return text;
}

using Answer = asio::awaitable<std::string>;

// The body of the answer, or its error as text.
Answer AskText(const server::Router& router, const Request& request) {
  const Content content = co_await router.Dispatch(request);
  if (content.http_status < 400) co_return EndLine(content.body);
  co_return FailureText(Json::parse(content.body, nullptr, false));
}

Answer Query(const server::Router& router, const server::TextState& state, const std::string& sql) {
  Request request = RequestOf(state, "POST", wire::kQueryRoute);
  request.body = Json{{"sql", sql}, {"format", "table"}};
  if (!state.target.empty()) request.body["target"] = state.target;
  co_return co_await AskText(router, request);
}

Answer Backtraces(std::vector<pid_t> pids, const server::Router& router, const server::TextState& state,
                  const std::string& word) {
  if (IsNumber(word)) {
    pids = {static_cast<pid_t>(std::stol(word.substr(0, 9)))};
  } else if (!state.target.empty()) {
    pids = {static_cast<pid_t>(std::stol(state.target))};
  }
  if (pids.empty()) co_return ErrorText({Code::kNotFound, "nothing is probed here", ""});
  std::string text;
  for (const pid_t pid : pids) {
    Request request = RequestOf(state, "GET", wire::kBacktraceRoute);
    request.query = {{"target", std::to_string(pid)}, {"format", "text"}};
    if (pids.size() > 1) text += "Process " + std::to_string(pid) + "\n";
    const std::string stacks = co_await AskText(router, request);
    text += stacks;
  }
  co_return text;
}

// Commands about one target that answer with JSON.
Answer AboutTarget(const std::vector<pid_t>& pids, const server::Router& router,
                   const server::TextState& state, const std::string& command, const std::string& rest) {
  const Result<pid_t> pid = ChosenTarget(pids, state);
  if (!pid.ok()) co_return ErrorText(pid.error());
  Request request = RequestOf(state, "GET", command == "config" ? wire::kConfigRoute : wire::kStatusRoute);
  const std::size_t equals = rest.find('=');
  if (command == "eval") {
    request = RequestOf(state, "POST", wire::kEvalRoute);
    request.body["code"] = rest;
  } else if (command == "config" && equals != std::string::npos) {
    request.method = "POST";
    request.body["set"] = Json{{rest.substr(0, equals), rest.substr(equals + 1)}};
  }
  request.query["target"] = std::to_string(*pid);
  const Content content = co_await router.Dispatch(request);
  const Json answer = Json::parse(content.body, nullptr, false);
  if (content.http_status >= 400 || !answer.is_object()) co_return FailureText(answer);
  if (command == "eval") co_return EvalText(answer);
  if (command == "status") co_return StatusText(answer);
  co_return SettingsText(answer, rest.substr(0, equals));
}

}  // namespace

Words SplitWord(const std::string& line) {
  const std::size_t start = line.find_first_not_of(" \t");
  if (start == std::string::npos) return {};
  const std::size_t end = std::min(line.find_first_of(" \t", start), line.size());
  const std::size_t rest = std::min(line.find_first_not_of(" \t", end), line.size());
  const std::size_t last = line.find_last_not_of(" \t");
  return {line.substr(start, end - start), rest <= last ? line.substr(rest, last + 1 - rest) : ""};
}

Answer AnswerLine(Daemon& daemon, const server::Router& router, server::TextState& state,
                  const std::string& line) {
  const Request any = RequestOf(state, "GET", "");  // `help` is a request, too
  co_await router.Announce(any);
  co_await daemon.targets.Refresh();
  std::vector<pid_t> pids;
  for (const Target* target : daemon.targets.Shown()) {
    if (target->state != TargetState::kEnded) pids.push_back(target->pid);
  }
  co_return co_await AnswerLine(pids, router, state, line);
}

Answer AnswerLine(const std::vector<pid_t>& pids, const server::Router& router, server::TextState& state,
                  const std::string& line) {
  const Words words = SplitWord(line);
  if (words.first.empty()) co_return "";
  if (words.first == "help" || words.first == "?") co_return kHelp;
  if (words.first == "list" || words.first == "ls") {
    const std::string sql = "SELECT pid, state, python, cmdline FROM probing.targets ORDER BY pid";
    const server::TextState about_all{state.right, state.peer, "", state.served_at};
    co_return co_await Query(router, about_all, sql);
  }
  if (words.first == "use") {
    if (!IsNumber(words.rest) || words.rest.size() > 9)
      co_return ErrorText({Code::kUsage, "use takes a pid", "`list` shows them"});
    state.target = words.rest;
    co_return "";
  }
  if (words.first == "bt" || words.first == "backtrace")
    co_return co_await Backtraces(pids, router, state, words.rest);
  if (words.first == "tables") {
    const std::string sql = words.rest.empty()
                                ? "SELECT table_name, doc FROM probing.tables ORDER BY table_name"
                                : "SELECT column_name, type, doc FROM probing.columns WHERE table_name = " +
                                      QuoteForSql(words.rest) + " ORDER BY position";
    co_return co_await Query(router, state, sql);
  }
  for (const char* command : {"eval", "config", "status"}) {
    if (words.first == command) co_return co_await AboutTarget(pids, router, state, words.first, words.rest);
  }
  co_return co_await Query(router, state, line);
}

}  // namespace probing::daemon
