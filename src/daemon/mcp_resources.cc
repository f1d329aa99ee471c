#include "daemon/mcp_resources.h"

#include <algorithm>
#include <array>

#include "daemon/mcp_tools.h"
#include "skills/documents.h"

namespace probing::daemon {
namespace asio = boost::asio;
using server::Json;
using server::Request;

namespace {

constexpr std::string_view kScheme = "probing://";
constexpr std::string_view kTables = "probing://tables";
constexpr const char* kMarkdown = "text/markdown";

struct Prompt {
  const char* name;
  const char* title;
  const char* skill;
};
constexpr std::array kPrompts{
    Prompt{"why_does_it_hang", "Why does my job hang?", "probing-hang"},
    Prompt{"why_is_it_slow", "Why is my job slow?", "probing-slow-training"},
    Prompt{"what_leaks", "What takes the memory, and does it leak?", "probing-memory-leak"},
    Prompt{"where_is_the_nan", "Where does the NaN in the loss come from?", "probing-nan"},
};

constexpr const char* kHowToRead =
    "Use the tools of this server: `targets`, `diagnose`, `backtrace`, `query`, `tables`, `flamegraph`. The "
    "playbook "
    "below is written for the command line; `probing -t PID query \"SQL\"` is the tool `query` with the "
    "target PID, "
    "`probing -t PID backtrace --locals` is `backtrace` with locals, `probing diagnose` is `diagnose`, "
    "`probing ps` is "
    "`targets`. For a command that has no tool, ask the user to run it.\n\n";

asio::awaitable<Result<std::string>> AskTables(Daemon& daemon, const Request& request,
                                               const std::string& table) {
  const McpTool* tool = FindMcpTool(daemon, request.right, "tables");
  if (tool == nullptr) co_return Error{Code::kPermission, "tables may not be read", ""};
  const Json arguments = table.empty() ? Json::object() : Json{{"table", table}};
  co_return co_await tool->run(daemon, request, arguments);
}

}  // namespace

asio::awaitable<Result<Json>> ListMcpResources(Daemon& daemon, const Request&) {
  Json list = Json::array();
  list.push_back({{"uri", kTables},
                  {"name", "tables"},
                  {"description", "All tables that can be queried"},
                  {"mimeType", kMarkdown}});
  for (const skills::Document& guide : skills::Guides()) {
    list.push_back({{"uri", std::string(kScheme) + std::string(guide.name)},
                    {"name", guide.name},
                    {"description", skills::TitleOf(guide)},
                    {"mimeType", kMarkdown}});
  }
  const Result<Json> tables =
      co_await QueryRows(daemon, "SELECT table_name, doc FROM probing.tables ORDER BY table_name");
  if (!tables.ok()) co_return tables.error();
  for (const Json& row : (*tables)["rows"]) {
    if (!row[0].is_string()) continue;
    list.push_back({{"uri", std::string(kTables) + "/" + row[0].get<std::string>()},
                    {"name", row[0]},
                    {"description", row[1].is_string() ? row[1] : Json("")},
                    {"mimeType", kMarkdown}});
  }
  co_return Json{{"resources", std::move(list)}};
}

Json ListMcpTemplates() {
  return {{"resourceTemplates",
           Json::array({{{"uriTemplate", std::string(kTables) + "/{table}"},
                         {"name", "table"},
                         {"description", "The columns of a table: types, units, what they are"},
                         {"mimeType", kMarkdown}}})}};
}

asio::awaitable<Result<Json>> ReadMcpResource(Daemon& daemon, const Request& request,
                                              const std::string& uri) {
  const Error not_found{Code::kNotFound, "there is no resource " + uri, ""};
  std::string text;
  if (uri == kTables || uri.starts_with(std::string(kTables) + "/")) {
    const std::string table = uri == kTables ? "" : uri.substr(kTables.size() + 1);
    if (uri != kTables && table.empty()) co_return not_found;
    Result<std::string> columns = co_await AskTables(daemon, request, table);
    if (!columns.ok()) co_return columns.error();
    // A table that is not there has no columns: nothing but the head.
    if (std::ranges::count(*columns, '\n') <= 2) co_return not_found;
    text = std::move(*columns);
  } else {
    const skills::Document* guide =
        uri.starts_with(kScheme) ? skills::Find(skills::Guides(), uri.substr(kScheme.size())) : nullptr;
    if (guide == nullptr) co_return not_found;
    text = guide->text;
  }
  co_return Json{{"contents", Json::array({{{"uri", uri}, {"mimeType", kMarkdown}, {"text", text}}})}};
}

Json ListMcpPrompts() {
  Json list = Json::array();
  for (const Prompt& prompt : kPrompts) {
    const skills::Document* skill = skills::Find(skills::Skills(), prompt.skill);
    list.push_back(
        {{"name", prompt.name},
         {"title", prompt.title},
         {"description", skill == nullptr ? "" : skills::HeaderOf(*skill, "description")},
         {"arguments", Json::array({{{"name", "target"},
                                     {"description", "the pid of the process; all of this host without"},
                                     {"required", false}}})}});
  }
  return {{"prompts", std::move(list)}};
}

Result<Json> GetMcpPrompt(const std::string& name, const Json& arguments) {
  for (const Prompt& prompt : kPrompts) {
    if (name != prompt.name) continue;
    const skills::Document* skill = skills::Find(skills::Skills(), prompt.skill);
    const Json target = arguments.value("target", Json());
    std::string text = prompt.title;
    if (target.is_string() || target.is_number_integer())
      text += " It is process " + (target.is_string() ? target.get<std::string>() : target.dump()) + ".";
    text += std::string("\n\n") + kHowToRead;
    if (skill != nullptr) text += skills::BodyOf(*skill);
    return Json{
        {"description", prompt.title},
        {"messages", Json::array({{{"role", "user"}, {"content", {{"type", "text"}, {"text", text}}}}})}};
  }
  return Error{Code::kNotFound, "there is no prompt " + name, ""};
}

}  // namespace probing::daemon
