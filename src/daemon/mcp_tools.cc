#include "daemon/mcp_tools.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/quote.h"
#include "base/visible.h"
#include "daemon/diagnosis.h"
#include "flame/ranking.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using server::Request;
using Answer = asio::awaitable<Result<std::string>>;

namespace {

constexpr std::size_t kRankedFunctions = 30;
constexpr double kMostSeconds = 60;

Request With(const Request& request, const Json& arguments) {
  Request asked = request;
  asked.query.clear();
  asked.body = arguments;
  return asked;
}

Answer Targets(Daemon& daemon, const Request&, const Json&) {
  const Result<Json> targets = co_await ListTargets(daemon);
  if (!targets.ok()) co_return targets.error();
  co_return targets->dump(1, ' ', false, Json::error_handler_t::replace);
}

Answer Query(Daemon& daemon, const Request& request, const Json& arguments) {
  Request asked = With(request, arguments);
  asked.body["format"] = "markdown";
  const Result<std::optional<pid_t>> pid = TargetOf(asked);
  if (!pid.ok()) co_return pid.error();
  const Result<server::Content> answer = co_await daemon.queries.Answer(asked, *pid);
  if (!answer.ok()) co_return answer.error();
  co_return answer->body;
}

Answer Tables(Daemon& daemon, const Request& request, const Json& arguments) {
  const Json name = arguments.value("table", Json(""));
  const std::string table = name.is_string() ? name.get<std::string>() : "";
  const std::string sql =
      table.empty() ? "SELECT table_name, kind, doc FROM probing.tables ORDER BY table_name"
                    : "SELECT column_name, type, unit, doc FROM probing.columns WHERE table_name = " +
                          QuoteForSql(table) + " ORDER BY position";
  const Json question{{"sql", sql}};
  co_return co_await Query(daemon, request, question);
}

Answer Stacks(Daemon& daemon, const Request& request, const Json& arguments) {
  Request asked = With(request, arguments);
  asked.path = std::string(wire::kBacktraceRoute);
  asked.query["format"] = "text";
  if (arguments.value("locals", Json(false)) == true) asked.query["locals"] = "1";
  if (arguments.value("native", Json(false)) == true) asked.query["native"] = "1";
  const Result<server::Content> answer = co_await Backtrace(daemon, asked);
  if (!answer.ok()) co_return answer.error();
  co_return answer->body;
}

std::string RankingText(const observe::Recorder& recorder) {
  const flame::Profile& profile = recorder.profile();
  flame::View view;
  view.shown = flame::Shown::kAll;
  const flame::Ranking ranking = Rank(profile, view, 0, INT64_MAX);
  std::uint64_t all = 0;
  for (const flame::RankedFunction& function : ranking.functions) all += function.own;
  std::string text = std::to_string(recorder.samples_taken()) + " samples of " +
                     std::to_string(ranking.threads.size()) +
                     " threads, waiting ones included\nown%  function (file:line)\n";
  for (std::size_t i = 0; i < std::min(kRankedFunctions, ranking.functions.size()); ++i) {
    const flame::RankedFunction& ranked = ranking.functions[i];
    std::array<char, 16> share{};
    std::snprintf(share.data(), share.size(), "%5.1f",
                  all > 0 ? 100.0 * static_cast<double>(ranked.own) / static_cast<double>(all) : 0.0);
    text += std::string(share.data()) + "  " + Visible(ranked.function.function) + " (" +
            Visible(flame::ShortFile(ranked.function.file)) + ":" + std::to_string(ranked.function.line) +
            ")\n";
  }
  return text;
}

Answer Flamegraph(Daemon& daemon, const Request& request, const Json& arguments) {
  Request asked = With(request, arguments);
  asked.path = "flamegraph";
  const Result<pid_t> pid = RequiredTarget(asked);
  if (!pid.ok()) co_return pid.error();
  const Json seconds = arguments.value("seconds", Json(2));
  if (!seconds.is_number() || !(seconds.get<double>() > 0 && seconds.get<double>() <= kMostSeconds))
    co_return Error{Code::kUsage, "seconds is a number up to 60", ""};
  const Json options{{"seconds", seconds}};
  std::string text;
  const Result<void> recorded = co_await daemon.sampling.RecordThen(
      {{*pid}}, options, [&](const observe::Recorder& recorder) { text = RankingText(recorder); });
  if (!recorded.ok()) co_return recorded.error();
  co_return text;
}

Answer Wrong(Daemon& daemon, const Request& request, const Json& arguments) {
  const Request asked = With(request, arguments);
  const Result<Json> diagnosis = co_await Diagnose(daemon, asked);
  if (!diagnosis.ok()) co_return diagnosis.error();
  co_return DiagnosisText(*diagnosis);
}

Answer Eval(Daemon& daemon, const Request& request, const Json& arguments) {
  Request asked = With(request, arguments);
  asked.path = std::string(wire::kEvalRoute);
  const Result<Json> answer = co_await Evaluate(daemon, asked);
  if (!answer.ok()) co_return answer.error();
  co_return answer->dump(1, ' ', false, Json::error_handler_t::replace);
}

Json Schema(Json properties, Json required) {
  return {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

const std::vector<McpTool>& AllTools() {
  const Json pid{{"type", "integer"}, {"description", "a pid from `targets`"}};
  const Json text{{"type", "string"}};
  const Json flag{{"type", "boolean"}};
  const Json number{{"type", "number"}};
  static const std::vector<McpTool> tools{
      {"targets", "The processes that are looked into: pid, state, Python version, command line.",
       Schema(Json::object(), Json::array()), server::Right::kRead, Targets},
      {"query", "One read-only SQL statement (DuckDB) over the tables of a target, or of all.",
       Schema({{"sql", text}, {"target", pid}}, Json::array({"sql"})), server::Right::kRead, Query},
      {"tables", "The tables that can be queried, or the columns of one.",
       Schema({{"table", text}}, Json::array()), server::Right::kRead, Tables},
      {"backtrace", "Where every Python thread of a target is now, and who holds the GIL.",
       Schema({{"target", pid}, {"locals", flag}, {"native", flag}}, Json::array({"target"})),
       server::Right::kRead, Stacks},
      {"flamegraph", "Samples a target for some seconds (2) and lists the functions its time goes to.",
       Schema({{"target", pid}, {"seconds", number}}, Json::array({"target"})), server::Right::kProfile,
       Flamegraph},
      {"diagnose",
       "What is wrong with the jobs here: hangs, stragglers, stalls, leaks, NaN, deaths; with evidence.",
       Schema({{"target", pid}, {"class", text}}, Json::array()), server::Right::kRead, Wrong},
      {"eval", "Runs Python code inside a target. It changes a live job: prefer the other tools.",
       Schema({{"target", pid}, {"code", text}, {"timeout", number}}, Json::array({"target", "code"})),
       server::Right::kEval, Eval},
  };
  return tools;
}

}  // namespace

std::vector<const McpTool*> McpToolsFor(const Daemon& daemon, server::Right right) {
  std::vector<const McpTool*> allowed;
  for (const McpTool& tool : AllTools()) {
    const bool granted = tool.right != server::Right::kEval || daemon.settings.GetFlag("probing.mcp.eval");
    const bool reads = daemon.file.empty() || tool.right == server::Right::kRead;  // a file has no process
    if (right >= tool.right && granted && reads) allowed.push_back(&tool);
  }
  return allowed;
}

const McpTool* FindMcpTool(const Daemon& daemon, server::Right right, const std::string& name) {
  for (const McpTool* tool : McpToolsFor(daemon, right)) {
    if (tool->name == name) return tool;
  }
  return nullptr;
}

}  // namespace probing::daemon
