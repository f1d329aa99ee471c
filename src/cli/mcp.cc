// probing mcp: the Model Context Protocol on stdin and stdout, for agents that start their tools themselves.
// A message on each line goes to probingd's /mcp, and its answer back.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

// As JSON-RPC numbers them.
constexpr int kParseError = -32700;
constexpr int kInvalidRequest = -32600;
constexpr int kInternalError = -32603;

std::string Failure(const Json& id, int code, const std::string& message) {
  return EncodeJson({{"jsonrpc", "2.0"}, {"id", id}, {"error", {{"code", code}, {"message", message}}}});
}

// "" when it wants none.
std::string AnswerTo(const std::string& line) {
  const Json message = Json::parse(line, nullptr, false);
  if (message.is_discarded()) return Failure(Json(), kParseError, "this is not JSON");
  if (!message.is_object() || message.value("jsonrpc", Json()) != "2.0" ||
      !message.value("method", Json()).is_string())
    return Failure(Json(), kInvalidRequest, "this is not a request of JSON-RPC 2.0");
  const Result<Bytes> answer = PostForBytes(std::string(wire::kMcpRoute), message, Patience::kEndless);
  if (answer.ok()) return answer->bytes;
  if (!message.contains("id")) return "";
  const Error& error = answer.error();
  return Failure(message["id"], kInternalError,
                 error.message + (error.hint.empty() ? "" : " (" + error.hint + ")"));
}

Result<int> Run(const Invocation&) {
  char* line = nullptr;
  std::size_t room = 0;
  while (getline(&line, &room, stdin) > 0) {
    const std::string message(line);
    if (message.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    const std::string answer = AnswerTo(message);
    if (!answer.empty()) Print(answer + "\n");
  }
  std::free(line);
  return 0;
}

}  // namespace

Command McpCommand() {
  return {.name = "mcp",
          .summary = "Serve an AI agent on stdin and stdout (Model Context Protocol)",
          .example = "claude mcp add probing -- probing mcp",
          .target = TargetUse::kOptional,
          .all_is_fine = true,
          .run = Run};
}

}  // namespace probing::cli
