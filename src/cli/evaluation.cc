#include "cli/evaluation.h"

#include "base/source_path.h"
#include "base/text.h"
#include "cli/output.h"

namespace probing::cli {
namespace {

void PrintHolder(const Json& holder) {
  PrintAside("Thread " + std::to_string(holder.value("tid", 0)) + " \"" + holder.value("name", "") +
             "\" holds the GIL:\n");
  for (const Json& frame : holder.value("stack", Json::array())) {
    PrintAside("    " + frame.get<std::string>() + "\n");
  }
}

void PrintRunning(const Json& running) {
  PrintAside("Thread " + std::to_string(running.value("tid", 0)) + " still runs it, for " +
             std::to_string(running.value("for_ms", 0) / 1000) + " s:\n");
  for (const Json& frame : running.value("stack", Json::array())) {
    PrintAside("    " + frame.get<std::string>() + "\n");
  }
}

// The outcome as an exit code; anything but "it ran" is also said on stderr.
int Conclude(const Json& answer) {
  const std::string outcome = answer.value("outcome", "");
  const std::string note = answer.value("note", "");
  if (outcome == "ok" || outcome == "raised") {
    if (!note.empty()) PrintAside("probing: " + note + "\n");
    return outcome == "ok" ? 0 : 1;
  }
  const Error error = outcome == "timeout" ? Error{Code::kTimeout, "the evaluation did not end in time", note}
                      : outcome == "busy"
                          ? Error{Code::kFailed, "the target is busy with another evaluation", note}
                          : Error{Code::kFailed, "the evaluation was " + outcome, note};
  const int code = PrintError(error);
  if (const auto running = answer.find("running"); running != answer.end()) PrintRunning(*running);
  if (const auto holder = answer.find("gil_holder"); holder != answer.end()) PrintHolder(*holder);
  return code;
}

// On a terminal: the lines of libraries are faint, what was raised is red.
std::string PaintedTraceback(const std::string& text) {
  std::string out;
  bool is_faint = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = TakePart(rest, '\n');
    const bool is_frame = line.starts_with("  File \"");
    if (is_frame) is_faint = IsLibraryFile(line.substr(8, line.find('"', 8) - 8));
    if (!line.starts_with("  ")) is_faint = false;
    const bool is_error = !line.starts_with(' ') && !line.starts_with("Traceback") && !line.empty();
    out += is_error   ? PaintedAside(line, Colour::kRed)
           : is_faint ? PaintedAside(line, Colour::kDim)
                      : std::string(line);
    out += '\n';
  }
  return out;
}

}  // namespace

int PrintEvaluation(const Json& answer) {
  Print(answer.value("stdout", ""));
  PrintAside(answer.value("stderr", ""));
  if (answer.contains("value")) Print(answer.value("value", "") + "\n");
  PrintAside(PaintedTraceback(answer.value("traceback", "")));
  return Conclude(answer);
}

}  // namespace probing::cli
