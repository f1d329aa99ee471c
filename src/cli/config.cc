#include <unistd.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "wire/contract.h"
#include "wire/settings.h"

namespace probing::cli {
namespace {

// The words of the command: names to show and values to set.
struct Wishes {
  std::vector<std::string> names;
  Json set = Json::object();
};

Result<Wishes> ReadWishes(const std::vector<std::string>& words) {
  Wishes wishes;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    RETURN_IF_ERROR(wire::FindSetting(name));
    wishes.names.push_back(name);
    if (equals != std::string::npos) wishes.set[name] = word.substr(equals + 1);
  }
  return wishes;
}

bool AreOfTheDaemon(const Wishes& wishes) {
  return !wishes.names.empty() && std::all_of(wishes.names.begin(), wishes.names.end(), [](const auto& name) {
    const Result<const wire::Setting*> setting = wire::FindSetting(name);
    return setting.ok() && (*setting)->holder == wire::Holder::kDaemon;
  });
}

Result<Json> Ask(const Invocation& invocation, const Wishes& wishes) {
  std::string path(wire::kConfigRoute);
  // host:port is the daemon and its only target in one.
  const bool is_daemon = invocation.endpoint && AreOfTheDaemon(wishes);
  if (invocation.target && !is_daemon) path += "?target=" + std::to_string(*invocation.target);
  if (wishes.set.empty()) return GetFromDaemon(path);
  return PostToDaemon(path, {{"set", wishes.set}});
}

// A setting takes several lines: its description is longer than what a line has left.
std::string ForTerminal(const Json& settings) {
  constexpr std::size_t kIndent = 4;
  std::string text;
  for (const Json& setting : settings) {
    const std::string value = setting.value("value", "");
    const std::string standard = setting.value("default", "");
    text += Painted(setting.value("name", ""), Colour::kBold) + " = " + value;
    if (value != standard) text += Painted("  (default " + standard + ")", Colour::kDim);
    text += "\n" + std::string(kIndent, ' ') +
            Wrapped(setting.value("description", ""), static_cast<std::size_t>(TerminalWidth()), kIndent) +
            "\n";
  }
  return text;
}

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const Wishes wishes, ReadWishes(invocation.arguments));
  ASSIGN_OR_RETURN(const Json answer, Ask(invocation, wishes));
  Json shown = Json::array();
  for (const Json& setting : answer.value("settings", Json::array())) {
    const bool wanted = wishes.names.empty() || std::find(wishes.names.begin(), wishes.names.end(),
                                                          setting.value("name", "")) != wishes.names.end();
    if (wanted) shown.push_back(setting);
  }
  if (shown.size() < wishes.names.size()) {
    return Error{Code::kUsage,
                 wishes.names[0] + (invocation.target ? " belongs to probingd" : " belongs to a target"),
                 invocation.target ? "ask without a target" : "name the target with -t"};
  }
  if (invocation.Has("--json")) {
    Print(FormatJson(shown));
    return 0;
  }
  // One name: its value alone, for scripts.
  if (wishes.names.size() == 1 && wishes.set.empty()) {
    Print(shown[0].value("value", "") + "\n");
    return 0;
  }
  if (isatty(STDOUT_FILENO) != 0) {
    Print(ForTerminal(shown));
    return 0;
  }
  std::vector<std::vector<std::string>> rows;
  for (const Json& setting : shown) {
    rows.push_back({setting.value("name", ""), setting.value("value", ""), setting.value("default", ""),
                    setting.value("description", "")});
  }
  Print(FormatTable({"NAME", "VALUE", "DEFAULT", "DESCRIPTION"}, rows));
  return 0;
}

}  // namespace

Command ConfigCommand() {
  return {.name = "config",
          .summary = "Show or change settings of a target; without a target, those of probingd",
          .example = "probing -t 1234 config probing.eval.timeout=30",
          .target = TargetUse::kOptional,
          .for_each_rank = Command::OfJob::kInTurn,
          .arguments = Arguments::kMany,
          .options = {{"SETTING", "", "NAME shows one setting, NAME=VALUE changes it"},
                      {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
