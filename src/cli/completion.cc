// Shell completions, written from the table of commands so that they never lag behind it.
#include <algorithm>

#include "base/quote.h"
#include "cli/commands.h"
#include "cli/completion_values.h"
#include "cli/output.h"

namespace probing::cli {
namespace {

std::string Join(const std::vector<std::string>& words, const std::string& separator) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : separator) + word;
  return joined;
}

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const Command& command : AllCommands()) {
    names.emplace_back(command.name);
    if (!command.alias.empty()) names.emplace_back(command.alias);
  }
  return names;
}

// "-d,--duration" gives both.
std::vector<std::string> Flags(const Option& option) {
  if (!option.name.starts_with('-')) return {};
  const std::size_t comma = option.name.find(',');
  if (comma == std::string_view::npos) return {std::string(option.name)};
  return {std::string(option.name.substr(0, comma)), std::string(option.name.substr(comma + 1))};
}

std::vector<std::string> FlagsOf(const Command& command) {
  std::vector<std::string> flags{"--help"};
  if (command.target != TargetUse::kNone) flags.insert(flags.end(), {"-t", "--target"});
  for (const Option& option : command.options) {
    for (std::string& flag : Flags(option)) flags.push_back(std::move(flag));
  }
  return flags;
}

std::string NamePattern(const Command& command) {
  return std::string(command.name) + (command.alias.empty() ? "" : "|" + std::string(command.alias));
}

std::string Spaced(std::string_view choices) {
  std::string words(choices);
  std::ranges::replace(words, '|', ' ');
  return words;
}

bool TakesFile(std::string_view value) { return value == "FILE" || value == "PATH" || value == "DIR"; }

// What the arguments of a command are, where that can be looked up: a kind of CompletionValues().
std::string_view ArgumentKind(const Command& command) {
  for (const Option& option : command.options) {
    if (option.name == "SETTING") return "settings";
    if (option.name == "TABLE") return "tables";
    if (option.name == "SHELL") return "shells";
  }
  return "";
}

constexpr const char* kShells = "bash zsh fish";

// -f|--format, of one option.
std::string FlagPattern(const Option& option) { return Join(Flags(option), "|"); }

std::string BashScript() {
  std::string script =
      "# bash completion of probing: source <(probing completion bash)\n"
      "_probing_values() { probing completion --values \"$1\" 2>/dev/null | cut -f1; }\n"
      "_probing() {\n"
      "  local words=() word glue= command= i\n"
      "  for ((i = 0; i <= COMP_CWORD; i++)); do  # bash takes rank:0 and NAME=1 apart\n"
      "    word=${COMP_WORDS[i]}\n"
      "    case $word in\n"
      "      :|=) words[${#words[@]}-1]+=$word; glue=1; continue ;;\n"
      "    esac\n"
      "    if [ -n \"$glue\" ]; then words[${#words[@]}-1]+=$word; glue=; else words+=(\"$word\"); fi\n"
      "  done\n"
      "  local current=${words[${#words[@]}-1]} previous=${words[${#words[@]}-2]}\n"
      "  local before=${current%\"${current##*[:=]}\"} list=\n"
      "  for word in \"${words[@]:1:${#words[@]}-2}\"; do\n"
      "    case $word in " +
      Join(CommandNames(), "|") +
      ") command=$word; break ;; esac\n"
      "  done\n"
      "  case $previous in\n"
      "    -t|--target) list=$(_probing_values targets) ;;\n"
      "    *) case $command:$previous in\n";
  for (const Command& command : AllCommands()) {
    for (const Option& option : command.options) {
      if (!option.name.starts_with('-') || (option.choices.empty() && !TakesFile(option.value))) continue;
      std::string pattern;
      for (const std::string& name : {std::string(command.name), std::string(command.alias)}) {
        for (const std::string& flag : Flags(option)) {
          if (!name.empty()) pattern += (pattern.empty() ? "" : "|") + name + ":" + flag;
        }
      }
      script += "      " + pattern + ") ";
      script += option.choices.empty() ? "COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n"
                                       : "list='" + Spaced(option.choices) + "' ;;\n";
    }
  }
  script += "    esac ;;\n  esac\n  if [ -z \"$list\" ]; then case $command in\n    '') list='" +
            Join(CommandNames(), " ") + " -t --target --help --version' ;;\n";
  for (const Command& command : AllCommands()) {
    script += "    " + NamePattern(command) + ") ";
    const std::string_view kind = ArgumentKind(command);
    if (kind == "shells") {
      script += "list='" + Join(FlagsOf(command), " ") + " " + kShells + "' ;;\n";
    } else if (!kind.empty()) {
      script +=
          "list=\"" + Join(FlagsOf(command), " ") + " $(_probing_values " + std::string(kind) + ")\" ;;\n";
    } else {
      script += "list='" + Join(FlagsOf(command), " ") + "'";
      if (command.arguments == Arguments::kProgram)
        script +=
            "; COMPREPLY=($(compgen -c -f -- \"$current\") $(compgen -W \"$list\" -- \"$current\")); return";
      script += " ;;\n";
    }
  }
  return script +
         "  esac; fi\n"
         "  COMPREPLY=($(compgen -W \"$list\" -- \"$current\"))\n"
         "  COMPREPLY=(\"${COMPREPLY[@]#\"$before\"}\")\n"
         "}\ncomplete -F _probing probing probe\n";
}

std::string ZshScript() {
  std::string script =
      "#compdef probing probe\n"
      "# zsh completion of probing: source <(probing completion zsh)\n"
      "_probing_values() {\n"
      "  local -a values\n"
      "  values=(${(f)\"$(probing completion --values $1 2>/dev/null | sed 's/:/\\\\:/g; s/\\t/:/')\"})\n"
      "  _describe $1 values\n"
      "}\n"
      "_probing() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const Command& command : AllCommands()) {
    script += "    " + QuoteForShell(std::string(command.name) + ":" + std::string(command.summary)) + "\n";
  }
  script +=
      "  )\n"
      "  local command= word\n"
      "  for word in ${words[2,CURRENT-1]}; do\n"
      "    case $word in " +
      Join(CommandNames(), "|") +
      ") command=$word; break ;; esac\n"
      "  done\n"
      "  case ${words[CURRENT-1]} in\n"
      "    -t|--target) _probing_values targets; return ;;\n"
      "  esac\n"
      "  case $command in\n"
      "    '') _describe command commands; compadd -- -t --target --help --version ;;\n";
  for (const Command& command : AllCommands()) {
    script += "    " + NamePattern(command) + ")\n      case ${words[CURRENT-1]} in\n";
    for (const Option& option : command.options) {
      if (!option.name.starts_with('-')) continue;
      if (!option.choices.empty())
        script +=
            "        " + FlagPattern(option) + ") compadd -- " + Spaced(option.choices) + "; return ;;\n";
      if (TakesFile(option.value)) script += "        " + FlagPattern(option) + ") _files; return ;;\n";
    }
    script += "      esac\n      compadd -- " + Join(FlagsOf(command), " ");
    const std::string_view kind = ArgumentKind(command);
    if (kind == "shells") {
      script += std::string(" ") + kShells;
    } else if (!kind.empty()) {
      script += "; _probing_values " + std::string(kind);
    }
    if (command.arguments == Arguments::kProgram) script += "; _files; _command_names";
    script += " ;;\n";
  }
  return script +
         "  esac\n}\n[[ $funcstack[1] == _probing ]] && _probing || compdef _probing probing probe\n";
}

std::string FishScript() {
  std::string script =
      "# fish completion of probing: probing completion fish | source\n"
      "function __probing_values; probing completion --values $argv[1] 2>/dev/null; end\n";
  const std::string none = "not __fish_seen_subcommand_from " + Join(CommandNames(), " ");
  for (const char* program : {"probing", "probe"}) {
    const std::string complete = std::string("complete -c ") + program + " ";
    script += complete + "-f\n";
    script += complete + "-s t -l target -x -a '(__probing_values targets)' -d 'the process to work on'\n";
    for (const Command& command : AllCommands()) {
      const std::string name(command.name);
      const std::string seen = complete + "-n " + QuoteForShell("__fish_seen_subcommand_from " + name);
      script += complete + "-n " + QuoteForShell(none) + " -a " + name + " -d " +
                QuoteForShell(command.summary) + "\n";
      const std::string_view kind = ArgumentKind(command);
      if (kind == "shells") {
        script += seen + " -a '" + kShells + "'\n";
      } else if (!kind.empty()) {
        script += seen + " -a '(__probing_values " + std::string(kind) + ")'\n";
      }
      for (const Option& option : command.options) {
        if (!option.name.starts_with('-')) continue;
        script += seen;
        for (const std::string& flag : Flags(option))
          script += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
        if (!option.choices.empty()) {
          script += " -x -a '" + Spaced(option.choices) + "'";
        } else if (!option.value.empty()) {
          script += TakesFile(option.value) ? " -r -F" : " -x";
        }
        script += " -d " + QuoteForShell(option.help) + "\n";
      }
    }
  }
  return script;
}

Result<int> Run(const Invocation& invocation) {
  if (invocation.Has("--values")) {
    ASSIGN_OR_RETURN(const std::string values, CompletionValues(invocation.Get("--values")));
    Print(values);
    return 0;
  }
  const std::string shell = invocation.arguments.empty() ? "" : invocation.arguments[0];
  if (shell == "bash") {
    Print(BashScript());
  } else if (shell == "zsh") {
    Print(ZshScript());
  } else if (shell == "fish") {
    Print(FishScript());
  } else {
    return Error{Code::kUsage,
                 shell.empty() ? "for which shell?" : "there is no completion for \"" + shell + "\"",
                 "bash, zsh or fish, as in `source <(probing completion bash)`"};
  }
  return 0;
}

}  // namespace

Command CompletionCommand() {
  return {.name = "completion",
          .summary = "Print the completion script for bash, zsh or fish",
          .example = "source <(probing completion bash)",
          .arguments = Arguments::kOne,
          .options = {{"SHELL", "", "bash, zsh or fish"},
                      {"--values", "KIND", "print what can stand in a place: targets, settings or tables",
                       kCompletionKinds}},
          .run = Run};
}

}  // namespace probing::cli
