// probing backtrace: where every thread is, read from outside. Works while the GIL is held, while the
// target is stopped or hung, and needs no injection.

#include "backtrace/backtrace.h"

#include <unistd.h>

#include "base/text.h"
#include "base/visible.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/incident_rows.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "observe/stacks/descendants.h"
#include "process/status.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

Result<backtrace::Options> OptionsOf(const Invocation& invocation) {
  backtrace::Options options;
  options.selection.all = invocation.Has("--all");
  options.lines = invocation.Has("--lines");
  options.native = options.lines || invocation.Has("--native");
  options.stop = invocation.Has("--stop");
  options.locals = invocation.Has("--locals");
  options.task_tree = invocation.Has("--task-tree");
  options.greenlets = invocation.Has("--greenlets");
  options.own_frames = invocation.Has("--full") || invocation.Has("--json");
  options.wait_channels = invocation.Has("--json");
  if (invocation.Has("--depth")) {
    ASSIGN_OR_RETURN(options.depth, backtrace::DepthOf(invocation.Get("--depth")));
    if (!options.locals) return Error{Code::kUsage, "--depth is of --locals", "give both"};
  }
  if (!invocation.Has("--tid")) return options;
  const std::string text = invocation.Get("--tid");
  pid_t tid = 0;
  if (!ParseNumber(text, tid) || tid <= 0) {
    return Error{Code::kUsage, "--tid takes a thread id, not '" + text + "'", ""};
  }
  options.selection.tid = tid;
  return options;
}

backtrace::TextStyle StyleOfStdout() {
  backtrace::TextStyle style;
  if (!Painted("", Colour::kBold).empty()) style.emphasis = backtrace::Emphasis::kTerminal;
  if (isatty(STDOUT_FILENO) != 0) style.columns = static_cast<std::size_t>(TerminalWidth());
  return style;
}

// The same, printed by the daemon over there.
Result<int> AskRemote(const Invocation& invocation, const backtrace::Options& options) {
  std::vector<std::pair<std::string, std::string>> fields{
      {"target", std::to_string(*invocation.target)}, {"format", invocation.Has("--json") ? "json" : "text"}};
  if (options.selection.tid) fields.emplace_back("tid", std::to_string(*options.selection.tid));
  if (options.selection.all) fields.emplace_back("all", "1");
  if (options.native) fields.emplace_back("native", "1");
  if (options.lines) fields.emplace_back("lines", "1");
  if (options.stop) fields.emplace_back("stop", "1");
  if (options.locals) fields.emplace_back("locals", "1");
  if (options.task_tree) fields.emplace_back("task_tree", "1");
  if (options.greenlets) fields.emplace_back("greenlets", "1");
  if (options.own_frames) fields.emplace_back("full", "1");
  if (options.depth != cpython::kDefaultValueDepth)
    fields.emplace_back("depth", std::to_string(options.depth));
  const backtrace::TextStyle style = StyleOfStdout();
  if (style.emphasis == backtrace::Emphasis::kTerminal) fields.emplace_back("emphasis", "1");
  if (style.columns != 0) fields.emplace_back("columns", std::to_string(style.columns));
  ASSIGN_OR_RETURN(const std::string text,
                   GetBytes(std::string(wire::kBacktraceRoute) + "?" + UrlQuery(fields), Patience::kEndless));
  Print(text);
  return 0;
}

std::string Shown(const Invocation& invocation, const backtrace::Picture& picture) {
  if (invocation.Has("--json")) return PictureToJson(picture);
  return PictureToText(picture, StyleOfStdout());
}

// The process and all below it that have Python, one after the other. It need not have any itself: a shell,
// a launcher, the bootloader of a packed program.
Result<int> RunTree(const Invocation& invocation, const backtrace::Options& options) {
  const bool json = invocation.Has("--json");
  const std::vector<pid_t> children = observe::FindDescendants(*invocation.target);
  std::vector<pid_t> pids{*invocation.target};
  pids.insert(pids.end(), children.begin(), children.end());
  std::optional<Error> first_error;
  std::string text;
  for (const pid_t pid : pids) {
    const auto picture = ReadLive(pid, options);
    if (!picture.ok()) {
      // One without Python, or that has ended meanwhile, is no error if another one has something to show.
      if (picture.error().code == Code::kPermission) PrintAside("note: " + picture.error().message + "\n");
      if (!first_error) first_error = picture.error();
      continue;
    }
    PrintAside(picture->remarks);
    if (options.selection.tid && picture->threads.empty()) continue;
    text += text.empty() ? "" : json ? ",\n" : "\n";
    if (!json) text += "Process " + std::to_string(pid) + ": " + Visible(process::CommandLine(pid)) + "\n\n";
    text += Shown(invocation, *picture);
  }
  if (text.empty()) {
    Error error = first_error.value_or(Error{Code::kFailed, "no process has such a thread", ""});
    if (error.code != Code::kNotFound) {
      error.message += ", nor in one of its " + std::to_string(children.size()) + " children";
    }
    return error;
  }
  Print(json ? "[\n" + text + "]\n" : text);
  return 0;
}

// Of an incident: where all its processes were.
Result<int> ShowFile(const Invocation& invocation, const backtrace::Options& options) {
  if (options.native || options.stop || options.task_tree || options.greenlets)
    return Error{Code::kUsage, "a file has Python frames only",
                 "native ones are rows: `probing -t FILE query \"SELECT * FROM python.native_stacks\"`"};
  ASSIGN_OR_RETURN(const std::vector<backtrace::RecordedProcess> processes,
                   RecordedStacks(invocation.directory, options));
  if (processes.empty())
    return Error{Code::kUsage, "there are no stacks in " + invocation.directory,
                 options.selection.tid
                     ? "leave out --tid to see all threads"
                     : "`probing incident` writes files that have some; a directory of history has none"};
  const bool json = invocation.Has("--json");
  std::string text;
  for (const auto& [title, picture] : processes) {
    text += text.empty() ? "" : json ? ",\n" : "\n";
    if (!json) text += Visible(title) + "\n\n";
    text += Shown(invocation, picture);
  }
  Print(json ? "[\n" + text + "]\n" : text);
  return 0;
}

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const backtrace::Options options, OptionsOf(invocation));
  if (!invocation.directory.empty()) return ShowFile(invocation, options);
  const bool tree = invocation.Has("--subprocesses");
  if (tree && (invocation.endpoint || invocation.Has("--core"))) {
    return Error{Code::kUsage, "--subprocesses is for live processes of this host", ""};
  }
  if (invocation.endpoint) return AskRemote(invocation, options);
  if (tree) return RunTree(invocation, options);
  const std::string program = invocation.arguments.empty() ? "" : invocation.arguments.front();
  ASSIGN_OR_RETURN(const backtrace::Picture picture,
                   invocation.Has("--core") ? ReadCore(invocation.Get("--core"), program, options)
                                            : ReadLive(*invocation.target, options));
  PrintAside(picture.remarks);
  RETURN_IF_ERROR(CheckShown(picture, options));
  Print(Shown(invocation, picture));
  return 0;
}

}  // namespace

Command BacktraceCommand() {
  return {
      .name = "backtrace",
      .alias = "bt",
      .summary = "Show where every Python thread is, without injecting or stopping anything",
      .example = "probing -t 12345 backtrace",
      .target = TargetUse::kRequired,
      .target_may_be_directory = true,
      .for_each_rank = Command::OfJob::kInTurn,
      .arguments = Arguments::kNone,
      .options = {{"--tid", "TID", "only this thread"},
                  {"--all", "", "also threads that run no Python"},
                  {"--native", "", "also native frames; threads that run are held for some microseconds"},
                  {"--lines", "",
                   "native frames with files, lines and inlined functions, from debug information"},
                  {"--stop", "", "hold all threads meanwhile: a picture of one instant"},
                  {"--subprocesses", "", "its children, too; it needs no Python itself"},
                  {"--core", "FILE", "of a core file; its program, or a folder with all files, may follow"},
                  {"--locals", "", "also the arguments and variables of each frame"},
                  {"--depth", "N",
                   "of --locals: levels of containers that are shown (default 6, at most 32)"},
                  {"--task-tree", "", "asyncio tasks below those that wait for them, as CPython's pstree"},
                  {"--greenlets", "", "looks at all objects for suspended greenlets, also beyond 0.1 s"},
                  {"--full", "", "also frames of the probe's own functions, which JSON always has"},
                  {"--json", "", "as JSON"}},
      .instead_of_target = "--core",
      .run = Run};
}

}  // namespace probing::cli
