// probing backtrace: where every thread is, read from outside. Works while the GIL is held, while the
// target is stopped or hung, and needs no injection.

#include "backtrace/backtrace.h"

#include "base/text.h"
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

Result<backtrace::Options> OptionsOf(const Invocation& invocation) {
  backtrace::Options options;
  options.selection.all = invocation.Has("--all");
  options.native = invocation.Has("--native");
  options.stop = invocation.Has("--stop");
  options.locals = invocation.Has("--locals");
  if (!invocation.Has("--tid")) return options;
  const std::string text = invocation.Get("--tid");
  pid_t tid = 0;
  if (!ParseNumber(text, tid) || tid <= 0) {
    return Error{Code::kUsage, "--tid takes a thread id, not '" + text + "'", ""};
  }
  options.selection.tid = tid;
  return options;
}

bool IsPainted() { return !Painted("", Colour::kBold).empty(); }

// The same, printed by the daemon over there.
Result<int> AskRemote(const Invocation& invocation, const backtrace::Options& options) {
  std::vector<std::pair<std::string, std::string>> fields{
      {"target", std::to_string(*invocation.target)}, {"format", invocation.Has("--json") ? "json" : "text"}};
  if (options.selection.tid) fields.emplace_back("tid", std::to_string(*options.selection.tid));
  if (options.selection.all) fields.emplace_back("all", "1");
  if (options.native) fields.emplace_back("native", "1");
  if (options.stop) fields.emplace_back("stop", "1");
  if (options.locals) fields.emplace_back("locals", "1");
  if (IsPainted()) fields.emplace_back("emphasis", "1");
  ASSIGN_OR_RETURN(const std::string text,
                   GetBytes(std::string(wire::kBacktraceRoute) + "?" + UrlQuery(fields), Patience::kEndless));
  Print(text);
  return 0;
}

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(const backtrace::Options options, OptionsOf(invocation));
  if (invocation.endpoint) return AskRemote(invocation, options);
  const std::string program = invocation.arguments.empty() ? "" : invocation.arguments.front();
  ASSIGN_OR_RETURN(const backtrace::Picture picture,
                   invocation.Has("--core") ? ReadCore(invocation.Get("--core"), program, options)
                                            : ReadLive(*invocation.target, options));
  PrintAside(picture.remarks);
  RETURN_IF_ERROR(CheckShown(picture, options));
  Print(invocation.Has("--json") ? PictureToJson(picture)
                                 : PictureToText(picture, IsPainted() ? backtrace::Emphasis::kTerminal
                                                                      : backtrace::Emphasis::kNone));
  return 0;
}

}  // namespace

Command BacktraceCommand() {
  return {
      .name = "backtrace",
      .alias = "bt",
      .summary = "Where every Python thread is, without injecting or stopping anything",
      .example = "probing -t 12345 backtrace",
      .target = TargetUse::kRequired,
      .arguments = Arguments::kNone,
      .options = {{"--tid", "TID", "only this thread"},
                  {"--all", "", "also threads that run no Python"},
                  {"--native", "", "also native frames; threads that run are held for some microseconds"},
                  {"--stop", "", "hold all threads meanwhile: a picture of one instant"},
                  {"--core", "FILE", "of a core file; its program, or a folder with all files, may follow"},
                  {"--locals", "", "also the variables of each frame"},
                  {"--json", "", "as JSON"}},
      .instead_of_target = "--core",
      .run = Run};
}

}  // namespace probing::cli
