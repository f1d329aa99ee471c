// probing tables: what can be asked for.
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/query_client.h"

namespace probing::cli {
namespace {

// As a literal of SQL.
std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("''") : std::string(1, c);
  return quoted + "'";
}

Result<void> CheckExists(Question question, const std::string& table) {
  question.format = "jsonl";
  ASSIGN_OR_RETURN(const std::string columns, Query(question));
  if (!columns.empty()) return {};
  return Error{Code::kFailed, "there is no table " + table, "`probing tables` lists them"};
}

Result<int> Run(const Invocation& invocation) {
  Question question;
  question.target = invocation.target;
  question.directory = invocation.directory;
  question.format = invocation.Has("--json") ? "json" : "table";
  if (invocation.arguments.empty()) {
    question.sql = "SELECT table_name, kind, origin, doc FROM probing.tables ORDER BY table_name";
  } else {
    question.sql = "SELECT column_name, type, unit, doc FROM probing.columns WHERE table_name = " +
                   Quoted(invocation.arguments[0]) + " ORDER BY position";
    RETURN_IF_ERROR(CheckExists(question, invocation.arguments[0]));
  }
  ASSIGN_OR_RETURN(const std::string answer, Query(question));
  Print(answer);
  return 0;
}

}  // namespace

Command TablesCommand() {
  return {.name = "tables",
          .summary = "List the tables that can be queried, or the columns of one",
          .example = "probing tables python.torch_trace",
          .target = TargetUse::kOptional,
          .target_may_have_ended = true,
          .target_may_be_directory = true,
          .all_is_fine = true,
          .arguments = Arguments::kOne,
          .options = {{"TABLE", "", "show the columns of this table"}, {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
