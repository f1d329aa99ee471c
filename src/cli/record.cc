#include <array>

#include "cli/commands.h"
#include "cli/recording.h"
#include "flame/formats.h"

namespace probing::cli {
namespace {

struct Format {
  std::string_view name;
  std::string_view suffix;  // of the default file name
  std::string (*write)(const flame::Profile&, const flame::View&);
};

constexpr std::array kFormats{
    Format{"speedscope", ".speedscope.json", flame::ToSpeedscope},
    Format{"collapsed", ".collapsed.txt", flame::ToCollapsed},
    Format{"pprof", ".pb", flame::ToPprof},
    Format{"chrome", ".trace.json", flame::ToChromeTrace},
};

Result<Format> FindFormat(const std::string& name) {
  std::string names;
  for (const Format& format : kFormats) {
    if (format.name == name) return format;
    names += (names.empty() ? "" : ", ") + std::string(format.name);
  }
  return Error{Code::kUsage, "there is no format " + name, "it is one of " + names};
}

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(
      const Format format,
      FindFormat(invocation.Has("--format") ? invocation.Get("--format") : std::string(kFormats[0].name)));
  std::string path = invocation.Get("--output");
  if (path.empty()) path = "profile-" + std::to_string(*invocation.target) + std::string(format.suffix);
  RETURN_IF_ERROR(CheckWritable(path));
  if (invocation.endpoint) {
    ASSIGN_OR_RETURN(const std::string recorded, RecordRemote(invocation, format.name));
    RETURN_IF_ERROR(WriteResult(path, recorded));
    return 0;
  }
  ASSIGN_OR_RETURN(const flame::View view, ViewOf(invocation));
  ASSIGN_OR_RETURN(const observe::Recorder recorder, Record(invocation, view));
  RETURN_IF_ERROR(WriteResult(path, format.write(recorder.profile(), view)));
  return 0;
}

}  // namespace

Command RecordCommand() {
  return {.name = "record",
          .summary = "Record stacks to a profile for speedscope, pprof, Perfetto and others",
          .example = "probing -t 1234 record -d 30 -f chrome -o train.json",
          .target = TargetUse::kRequired,
          .options = RecordingOptions(
              {{"-f,--format", "FORMAT", "speedscope, collapsed, pprof or chrome (speedscope)"},
               {"-o,--output", "FILE", "where to, - is stdout (profile-PID and a suffix)"}}),
          .run = Run};
}

}  // namespace probing::cli
