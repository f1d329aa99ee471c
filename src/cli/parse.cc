#include "cli/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/nearest.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/ps.h"
#include "cli/target.h"
#include "process/namesakes.h"
#include "process/status.h"
#include "wire/settings.h"
#include "wire/store_url.h"

namespace probing::cli {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  probing -t 1234 inject          put a probe into process 1234\n"
    "  probing -t 1234 eval 'len(x)'   run Python code there\n"
    "  probing list                    what is probed on this host\n"
    "\n`probing COMMAND --help` tells more. A TARGET is a pid, a script (train.py), rank:N of a job, or "
    "HOST:PORT for what is "
    "served there.";

const Command* FindCommand(std::string_view name) {
  for (const Command& command : AllCommands()) {
    if (command.name == name || (!command.alias.empty() && command.alias == name)) return &command;
  }
  return nullptr;
}

constexpr std::size_t kMostNamed = 3;

// A number that somebody has read inside of a container means another process out here, or none.
Result<void> CheckIsHere(pid_t pid) {
  const Result<process::Status> status = process::ReadStatus(pid);
  if (status.ok()) return {};
  Error error = status.error();
  const std::vector<pid_t> namesakes = process::NamesakesElsewhere(pid);
  for (std::size_t i = 0; i < namesakes.size() && i < kMostNamed; ++i) {
    error.hint = (i == 0 ? "in another pid namespace (a container) it is process " : error.hint + " or ") +
                 std::to_string(namesakes[i]);
  }
  return error;
}

bool IsTargetFlag(std::string_view word) { return word == "-t" || word == "--target"; }

Error UnknownCommand(const std::string& word) {
  std::vector<std::string_view> names;
  for (const Command& command : AllCommands()) names.push_back(command.name);
  const std::string_view nearest = Nearest(word, names);
  return {Code::kUsage, "there is no command \"" + word + "\"",
          nearest.empty() ? "`probing --help` lists all commands"
                          : "did you mean `probing " + std::string(nearest) + "`?"};
}

// "-d,--duration" is known as "--duration". REQUIRES: an option, no argument such as "WHAT".
std::string LongName(std::string_view name) { return std::string(name.substr(name.find("--"))); }

Error UsageError(const CLI::ParseError& error, const Command* command,
                 const std::vector<std::string>& words) {
  std::string help = command != nullptr ? std::string(command->name) + " --help" : "--help";
  std::string hint = "see `probing " + help + "`";
  if (command != nullptr && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::vector<std::string> names;
    for (const Option& option : command->options) {
      if (option.name.starts_with('-')) names.push_back(LongName(option.name));
    }
    const std::vector<std::string_view> candidates(names.begin(), names.end());
    for (const std::string& word : words) {
      const bool known = std::find(names.begin(), names.end(), word) != names.end();
      const std::string_view nearest = Nearest(word, candidates);
      if (word.starts_with("--") && !known && !nearest.empty())
        hint = "did you mean " + std::string(nearest) + "?";
    }
  }
  return {Code::kUsage, error.what(), hint};
}

// Where the command's name is: the first word that is neither an option nor a target's name.
std::size_t CommandIndex(const std::vector<std::string>& words) {
  std::size_t i = 0;
  while (i < words.size() && words[i].starts_with('-')) i += IsTargetFlag(words[i]) ? 2 : 1;
  return std::min(i, words.size());
}

// Splits off the words of the program that `run` is to start: from "--" or the first word
// which is no option.
std::vector<std::string> TakeProgram(std::vector<std::string>& words, std::size_t command_index) {
  std::size_t i = command_index + 1;
  while (i < words.size() && words[i].starts_with('-') && words[i] != "--") ++i;
  const std::size_t first = i < words.size() && words[i] == "--" ? i + 1 : i;
  std::vector<std::string> program(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
  words.resize(i);
  return program;
}

// Everything CLI11 writes to while it parses.
struct Slots {
  std::string target;
  std::map<std::string, std::string> values;
  std::map<std::string, bool> switches;
  std::vector<std::string> arguments;
};

void AddTarget(CLI::App& app, Slots& slots) {
  app.add_option("-t,--target", slots.target, "the process to work on")->type_name("TARGET");
}

void Declare(CLI::App& app, const Command& command, Slots& slots) {
  app.footer("Example:\n  " + std::string(command.example));
  if (command.target != TargetUse::kNone) AddTarget(app, slots);
  for (const Option& option : command.options) {
    const std::string name(option.name);
    const std::string help(option.help);
    if (!option.name.starts_with('-')) {
      app.add_option(name, slots.arguments, help)->type_name("");
    } else if (option.value.empty()) {
      app.add_flag(name, slots.switches[LongName(name)], help);
    } else {
      app.add_option(name, slots.values[LongName(name)], help)->type_name(std::string(option.value));
    }
  }
  // `probing status 1234`.
  const bool takes_target_only = command.target != TargetUse::kNone && command.arguments == Arguments::kNone;
  if (takes_target_only)
    app.add_option("TARGET", slots.arguments, "the same as -t")->type_name("")->expected(0, 1);
}

bool NeedsNoTarget(const Command& command, const Slots& slots) {
  const auto given = slots.values.find(std::string(command.instead_of_target));
  return given != slots.values.end() && !given->second.empty();
}

// A target among the arguments, as in `probing eval 1234 CODE`.
void MoveTarget(const Command& command, Slots& slots) {
  if (!slots.target.empty() || command.target == TargetUse::kNone || slots.arguments.empty()) return;
  const bool only_target = command.arguments == Arguments::kNone;
  const bool target_and_more = LooksLikeTarget(slots.arguments.front()) &&
                               (command.arguments == Arguments::kMany || slots.arguments.size() > 1);
  if (!only_target && !target_and_more) return;
  slots.target = slots.arguments.front();
  slots.arguments.erase(slots.arguments.begin());
}

Result<Invocation> ToInvocation(const Command& command, Slots& slots) {
  const bool needs_no_target = NeedsNoTarget(command, slots);
  if (!needs_no_target) MoveTarget(command, slots);
  Invocation invocation;
  for (auto& [name, value] : slots.values) {
    if (!value.empty()) invocation.options[name] = value;
  }
  for (const auto& [name, on] : slots.switches) {
    if (on) invocation.options[name] = "";
  }
  invocation.arguments = std::move(slots.arguments);
  const std::size_t most = needs_no_target || command.arguments == Arguments::kOne ? 1
                           : command.arguments == Arguments::kNone                 ? 0
                                                                                   : SIZE_MAX;
  if (invocation.arguments.size() > most) {
    return Error{Code::kUsage,
                 std::string(command.name) + ": \"" + invocation.arguments[most] + "\" is one word too many",
                 "is a quote missing? see `probing " + std::string(command.name) + " --help`"};
  }
  // `inject --job` is short for `-t job inject`.
  if (command.target_may_be_job && invocation.Has("--job")) {
    if (!slots.target.empty()) return Error{Code::kUsage, "either a target or --job, not both", ""};
    slots.target = "job";
  }
  if (slots.target.empty() && command.target == TargetUse::kRequired && !needs_no_target) {
    return Error{
        Code::kUsage, std::string(command.name) + " needs a target",
        "name one: `probing -t PID " + std::string(command.name) + "`; `probing list` shows the probed ones"};
  }
  if (!slots.target.empty() && needs_no_target) {
    return Error{Code::kUsage, "either a target or " + std::string(command.instead_of_target) + ", not both",
                 ""};
  }
  if (!slots.target.empty() && command.target == TargetUse::kNone) {
    return Error{Code::kUsage, std::string(command.name) + " takes no target", ""};
  }
  if (wire::LooksLikeStore(slots.target)) {
    if (!command.target_may_be_store) {
      return Error{Code::kUsage, std::string(command.name) + " needs a process, and a store is none",
                   "`probing -t clickhouse://… query SQL` asks what is in it"};
    }
    RETURN_IF_ERROR(wire::ParseStoreUrl(slots.target));
    invocation.store = slots.target;
  } else if (LooksLikeDirectory(slots.target)) {
    if (!command.target_may_be_directory) {
      return Error{Code::kUsage, std::string(command.name) + " needs a process, and a directory is none",
                   "`probing -t DIR query SQL` asks what is in it"};
    }
    ASSIGN_OR_RETURN(invocation.directory, ParseDirectory(slots.target));
  } else if (!slots.target.empty()) {
    ASSIGN_OR_RETURN(TargetName name, ParseTarget(slots.target));
    invocation.target = name.pid;
    if (!name.script.empty()) {
      ASSIGN_OR_RETURN(invocation.target, FindScript(name.script));
    }
    if (name.rank) {
      ASSIGN_OR_RETURN(FoundRank found, FindRank(*name.rank));
      invocation.target = found.pid;
      name.endpoint = std::move(found.endpoint);
    }
    if (name.job && !command.target_may_be_job && command.for_each_rank == Command::OfJob::kNo) {
      return Error{Code::kUsage, std::string(command.name) + " takes one process, and a job has several",
                   "name a rank: `probing -t rank:0 " + std::string(command.name) + "`"};
    }
    if (name.job && !name.job->empty() && !invocation.Has("--hosts") && !invocation.Has("--hostfile"))
      name.job = FullJobName(*name.job);
    invocation.job = std::move(name.job);
    invocation.endpoint = std::move(name.endpoint);
    const bool is_here = !invocation.endpoint.has_value();
    if (!is_here && command.only_here) {
      return Error{Code::kUsage, std::string(command.name) + " is for processes of this machine",
                   "run it there: " + invocation.endpoint->ToText() + " cannot be told to"};
    }
    if (is_here && invocation.target && !command.target_may_have_ended)
      RETURN_IF_ERROR(CheckIsHere(*invocation.target));
  }
  return invocation;
}

}  // namespace

Result<Parsed> ParseCommandLine(std::vector<std::string> words) {
  // `probing help`, `probing help query`.
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.resize(std::min<std::size_t>(words.size(), 1));
    words.emplace_back("--help");
  }
  if (!words.empty() && FindCommand(words[0]) == nullptr && LooksLikeTarget(words[0]))
    words.insert(words.begin(), "-t");
  const std::size_t at = CommandIndex(words);
  const Command* command = at < words.size() ? FindCommand(words[at]) : nullptr;
  if (at < words.size() && command == nullptr) return UnknownCommand(words[at]);

  CLI::App app("Attach to a running Python or PyTorch job and see why it hangs, slows down or leaks.",
               "probing");
  app.footer(kFooter);
  app.require_subcommand(0, 1);
  Slots slots;
  AddTarget(app, slots);
  app.add_flag("--version", slots.switches["--version"], "print the version");
  for (const Command& each : AllCommands()) {
    CLI::App* child = app.add_subcommand(std::string(each.name), std::string(each.summary));
    if (!each.alias.empty()) child->alias(std::string(each.alias));
    if (&each == command) Declare(*child, each, slots);
  }
  std::vector<std::string> program;
  if (command != nullptr && command->arguments == Arguments::kProgram) program = TakeProgram(words, at);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 wants them reversed
  } catch (const CLI::CallForHelp&) {
    return Parsed{
        command,
        {},
        command != nullptr ? app.get_subcommand(std::string(command->name))->help("probing") : app.help()};
  } catch (const CLI::ParseError& error) {
    return UsageError(error, command, words);
  }
  if (slots.switches["--version"]) return Parsed{nullptr, {}, "probing " PROBING_VERSION "\n"};
  if (command == nullptr && words.empty()) return Parsed{nullptr, {}, app.help()};
  if (command == nullptr) {
    return Error{Code::kUsage, "no command given",
                 "for example `probing -t PID status`; `probing --help` lists all"};
  }
  slots.arguments.insert(slots.arguments.end(), program.begin(), program.end());
  ASSIGN_OR_RETURN(Invocation invocation, ToInvocation(*command, slots));
  return Parsed{command, std::move(invocation), std::nullopt};
}

Result<std::vector<std::string>> TranslateProbe(const std::vector<std::string>& words) {
  std::string library;
  std::string action;
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--dll" && i + 1 < words.size()) {
      library = words[++i];
    } else if (words[i].starts_with("--dll=")) {
      library = words[i].substr(6);
    } else if (words[i] == "--dump" || words[i] == "--pause") {
      action = words[i];
    } else {
      rest.push_back(words[i]);
    }
  }
  if (rest.size() != 1 || rest[0].starts_with('-') || FindCommand(rest[0]) != nullptr) return words;
  if (action == "--pause") return std::vector<std::string>{"-t", rest[0], "debug", "--inject"};
  if (action == "--dump") return std::vector<std::string>{"-t", rest[0], "backtrace"};
  std::vector<std::string> inject{"-t", rest[0], "inject"};
  if (!library.empty()) inject.insert(inject.end(), {"--dll", library});
  return inject;
}

}  // namespace probing::cli
