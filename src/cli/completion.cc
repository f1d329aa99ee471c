// Shell completions, written from the table of commands so that they never lag behind it.
#include "base/quote.h"
#include "cli/commands.h"
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

std::string BashScript() {
  std::string script =
      "# bash completion of probing: source <(probing completion bash)\n"
      "_probing() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command= word\n"
      "  case $previous in\n"
      "    -t|--target) COMPREPLY=($(compgen -W \"$(probing list 2>/dev/null | awk 'NR>1{print $1}')\" -- "
      "\"$current\")); return ;;\n"
      "    --dll|--file) COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n"
      "  esac\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    case $word in " +
      Join(CommandNames(), "|") +
      ") command=$word; break ;; esac\n"
      "  done\n"
      "  case $command in\n"
      "    '') COMPREPLY=($(compgen -W '" +
      Join(CommandNames(), " ") + " -t --target --help --version' -- \"$current\")) ;;\n";
  for (const Command& command : AllCommands()) {
    if (command.arguments == Arguments::kProgram) {
      script += "    " + NamePattern(command) + ") COMPREPLY=($(compgen -W '" + Join(FlagsOf(command), " ") +
                "' -- \"$current\") $(compgen -c -f -- \"$current\")) ;;\n";
    } else {
      script += "    " + NamePattern(command) + ") COMPREPLY=($(compgen -W '" + Join(FlagsOf(command), " ") +
                "' -- \"$current\")) ;;\n";
    }
  }
  return script + "  esac\n}\ncomplete -F _probing probing probe\n";
}

std::string ZshScript() {
  std::string script =
      "#compdef probing probe\n"
      "# zsh completion of probing: source <(probing completion zsh)\n"
      "_probing_targets() { compadd -- ${(f)\"$(probing list 2>/dev/null | awk 'NR>1{print $1}')\"} }\n"
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
      "    -t|--target) _probing_targets; return ;;\n"
      "    --dll|--file) _files; return ;;\n"
      "  esac\n"
      "  case $command in\n"
      "    '') _describe command commands ;;\n";
  for (const Command& command : AllCommands()) {
    script += "    " + NamePattern(command) + ") compadd -- " + Join(FlagsOf(command), " ");
    if (command.arguments == Arguments::kProgram) script += "; _files; _command_names";
    script += " ;;\n";
  }
  return script +
         "  esac\n}\n[[ $funcstack[1] == _probing ]] && _probing || compdef _probing probing probe\n";
}

std::string FishScript() {
  std::string script =
      "# fish completion of probing: probing completion fish | source\n"
      "function __probing_targets; probing list 2>/dev/null | awk 'NR>1{print $1}'; end\n";
  const std::string none = "not __fish_seen_subcommand_from " + Join(CommandNames(), " ");
  for (const char* program : {"probing", "probe"}) {
    const std::string complete = std::string("complete -c ") + program + " ";
    script += complete + "-f\n";
    script += complete + "-s t -l target -x -a '(__probing_targets)' -d 'the process to work on'\n";
    for (const Command& command : AllCommands()) {
      const std::string name(command.name);
      script += complete + "-n " + QuoteForShell(none) + " -a " + name + " -d " +
                QuoteForShell(command.summary) + "\n";
      for (const Option& option : command.options) {
        if (!option.name.starts_with('-')) continue;
        script += complete + "-n " + QuoteForShell("__fish_seen_subcommand_from " + name) + " -l " +
                  Flags(option).back().substr(2) + (option.value.empty() ? "" : " -r") + " -d " +
                  QuoteForShell(option.help) + "\n";
      }
    }
  }
  return script;
}

Result<int> Run(const Invocation& invocation) {
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
          .options = {{"SHELL", "", "bash, zsh or fish"}},
          .run = Run};
}

}  // namespace probing::cli
