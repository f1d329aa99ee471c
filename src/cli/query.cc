// probing query: a question in SQL, an answer in the format somebody needs.
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/scoped_fd.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/query_client.h"
#include "cli/recording.h"
#include "cli/source_text.h"

namespace probing::cli {
namespace {

bool IsBinary(std::string_view format) { return format == "arrow" || format == "parquet"; }

Result<void> Deliver(const Invocation& invocation, const Question& question, const std::string& answer) {
  const std::string path = invocation.Get("--output");
  if (!path.empty() && path != "-") {
    const ScopedFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file.valid()) return ErrnoError("write " + path);
    RETURN_IF_ERROR(WriteAll(file.get(), answer));
    PrintAside(path + "\n");
    return {};
  }
  if (IsBinary(question.format) && isatty(STDOUT_FILENO) != 0 && path != "-") {
    return Error{Code::kUsage, question.format + " is not for a terminal", "write it to a file with -o FILE"};
  }
  Print(question.format == "table" ? PaintedTable(answer) : answer);
  return {};
}

// The format named, or the one that the name of the output file asks for.
std::string FormatOf(const Invocation& invocation) {
  if (invocation.Has("--format")) return invocation.Get("--format");
  if (invocation.Has("--json")) return "json";
  const std::string path = invocation.Get("--output");
  for (const char* format : {"csv", "json", "jsonl", "arrow", "parquet"}) {
    if (path.ends_with(std::string(".") + format)) return format;
  }
  return path.ends_with(".md") ? "markdown" : "table";
}

Result<int> Watch(const Invocation& invocation, const Question& question, double seconds) {
  CatchInterrupts();
  const bool terminal = isatty(STDOUT_FILENO) != 0 && !invocation.Has("--output");
  while (!Interrupted()) {
    ASSIGN_OR_RETURN(const std::string answer, Query(question));
    if (terminal) Draw("\x1b[H\x1b[2J");
    RETURN_IF_ERROR(Deliver(invocation, question, answer));
    const Deadline next = Deadline::AfterNs(static_cast<std::int64_t>(seconds * 1e9));
    while (!next.passed() && !Interrupted()) SleepUs(20'000);
  }
  return 0;
}

Result<int> Run(const Invocation& invocation) {
  ASSIGN_OR_RETURN(Question question, QuestionOf(invocation));
  ASSIGN_OR_RETURN(question.sql, SourceText(invocation, "query", "SQL",
                                            "probing -t PID query 'SELECT * FROM python.backtrace'"));
  question.format = FormatOf(invocation);
  if (invocation.Has("--watch")) {
    ASSIGN_OR_RETURN(const double seconds, invocation.GetNumber("--watch", 1));
    return Watch(invocation, question, seconds);
  }
  ASSIGN_OR_RETURN(const Bytes answer, QueryHosts(question));
  RETURN_IF_ERROR(Deliver(invocation, question, answer.bytes));
  return answer.is_partial ? static_cast<int>(Code::kPartial) : 0;
}

}  // namespace

Command QueryCommand() {
  return {.name = "query",
          .summary = "Query in SQL what was recorded and what goes on now",
          .example = "probing -t 1234 query \"SELECT func, lineno FROM python.backtrace\"",
          .target = TargetUse::kOptional,
          .target_may_have_ended = true,
          .target_may_be_directory = true,
          .target_may_be_store = true,
          .target_may_be_job = true,
          .all_is_fine = true,
          .arguments = Arguments::kOne,
          .options = {{"SQL", "", "one statement; - reads it from stdin"},
                      {"--file", "FILE", "read the SQL from a file"},
                      {"-f,--format", "FORMAT", "table (default), csv, json, jsonl, arrow, parquet, markdown",
                       kQueryFormats},
                      {"-o,--output", "FILE", "write the result there; its suffix chooses the format"},
                      {"--watch", "SECONDS", "ask again and again"},
                      {"--json", "", "the same as --format json"}},
          .run = Run};
}

}  // namespace probing::cli
