// POST /mcp: the Model Context Protocol (streamable HTTP), so that AI agents can ask what people ask.
// They may only read, and record, unless probing.mcp.eval says otherwise.
#include <array>

#include "base/clock.h"
#include "daemon/api.h"
#include "daemon/mcp_resources.h"
#include "daemon/mcp_tools.h"
#include "wire/contract.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Content;
using server::Json;
using server::Request;

namespace {

constexpr std::array<std::string_view, 3> kProtocols{"2025-06-18", "2025-03-26", "2024-11-05"};
constexpr int kInvalidRequest = -32600;
constexpr int kNoSuchMethod = -32601;
constexpr int kInvalidParams = -32602;
constexpr int kInternalError = -32603;
constexpr int kNoSuchResource = -32002;

Json Failure(const Json& id, int code, const std::string& message) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}};
}

Json Success(const Json& id, Json result) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}};
}

Json Initialize(const Json& parameters) {
  const Json wanted = parameters.value("protocolVersion", Json(""));
  std::string version(kProtocols[0]);
  for (const std::string_view known : kProtocols) {
    if (wanted == known) version = std::string(known);
  }
  return {{"protocolVersion", version},
          {"capabilities",
           {{"tools", Json::object()}, {"resources", Json::object()}, {"prompts", Json::object()}}},
          {"serverInfo", {{"name", "probing"}, {"version", PROBING_VERSION}}},
          {"instructions",
           "Attaches to running Python and PyTorch processes. Start with `diagnose` and `targets`; `tables` "
           "says what can "
           "be asked with `query` (DuckDB's SQL). The resources are guides and the columns of all tables."}};
}

asio::awaitable<Json> Call(Daemon& daemon, const Request& request, const Json& id, const Json& parameters) {
  const Json name = parameters.value("name", Json(""));
  const Json arguments = parameters.value("arguments", Json::object());
  const McpTool* tool =
      name.is_string() ? FindMcpTool(daemon, request.right, name.get<std::string>()) : nullptr;
  if (tool == nullptr || !arguments.is_object())
    co_return Failure(id, kInvalidParams, "there is no such tool: " + name.dump());
  const Result<std::string> answer = co_await tool->run(daemon, request, arguments);
  std::string text;
  if (answer.ok()) {
    text = *answer;
  } else {
    text = answer.error().message + (answer.error().hint.empty() ? "" : "\nhint: " + answer.error().hint);
  }
  const Json content = Json::array({Json{{"type", "text"}, {"text", text}}});
  co_return Success(id, {{"content", content}, {"isError", !answer.ok()}});
}

asio::awaitable<Json> Read(Daemon& daemon, const Request& request, const Json& id, const Json& parameters) {
  const Json uri = parameters.value("uri", Json(""));
  if (!uri.is_string()) co_return Failure(id, kInvalidParams, "uri is a text");
  const Result<Json> contents = co_await ReadMcpResource(daemon, request, uri.get<std::string>());
  if (contents.ok()) co_return Success(id, *contents);
  const bool is_unknown = contents.error().code == Code::kNotFound;
  co_return Failure(id, is_unknown ? kNoSuchResource : kInternalError, contents.error().message);
}

Json Prompted(const Json& id, const Json& parameters) {
  const Json name = parameters.value("name", Json(""));
  const Json arguments = parameters.value("arguments", Json::object());
  if (!name.is_string() || !arguments.is_object()) return Failure(id, kInvalidParams, "name is a text");
  const Result<Json> prompt = GetMcpPrompt(name.get<std::string>(), arguments);
  return prompt.ok() ? Success(id, *prompt) : Failure(id, kInvalidParams, prompt.error().message);
}

asio::awaitable<Json> Dispatch(Daemon& daemon, const Request& request, const std::string& method) {
  const Json id = request.body.value("id", Json());
  const Json parameters = request.body.value("params", Json::object());
  if (!parameters.is_object()) co_return Failure(id, kInvalidParams, "params is an object");
  if (method == "initialize") co_return Success(id, Initialize(parameters));
  if (method == "ping") co_return Success(id, Json::object());
  if (method == "tools/list") {
    Json list = Json::array();
    for (const McpTool* tool : McpToolsFor(daemon, request.right)) {
      list.push_back(
          {{"name", tool->name}, {"description", tool->description}, {"inputSchema", tool->schema}});
    }
    co_return Success(id, {{"tools", std::move(list)}});
  }
  if (method == "tools/call") co_return co_await Call(daemon, request, id, parameters);
  if (method == "resources/list") {
    const Result<Json> list = co_await ListMcpResources(daemon, request);
    co_return list.ok() ? Success(id, *list) : Failure(id, kInternalError, list.error().message);
  }
  if (method == "resources/templates/list") co_return Success(id, ListMcpTemplates());
  if (method == "resources/read") co_return co_await Read(daemon, request, id, parameters);
  if (method == "prompts/list") co_return Success(id, ListMcpPrompts());
  if (method == "prompts/get") co_return Prompted(id, parameters);
  co_return Failure(id, kNoSuchMethod, "there is no method " + method);
}

asio::awaitable<Result<Content>> Post(Daemon& daemon, const Request& request) {
  const Json method = request.body.value("method", Json());
  if (request.body.value("jsonrpc", Json()) != "2.0" || !method.is_string()) {
    Content content = server::JsonContent(Failure(Json(), kInvalidRequest, "this is not JSON-RPC 2.0"));
    content.http_status = 400;
    co_return content;
  }
  // Notifications want no answer, and there is none of interest to us.
  if (!request.body.contains("id")) co_return Content{"", "", 202, {}};
  const Json answer = co_await Dispatch(daemon, request, method.get<std::string>());
  co_return server::JsonContent(answer);
}

}  // namespace

void AddMcp(server::Router& router, Daemon& daemon) {
  router.AddContent("POST", wire::kMcpRoute, server::Right::kRead,
                    [&](const Request& request) { return Post(daemon, request); });
}

}  // namespace probing::daemon
