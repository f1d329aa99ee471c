// probing tables: what can be asked for.
#include "base/quote.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/query_client.h"

namespace probing::cli {
namespace {

Result<void> CheckExists(Question question, const std::string& table) {
  question.format = "jsonl";
  ASSIGN_OR_RETURN(const std::string columns, Query(question));
  if (!columns.empty()) return {};
  return Error{Code::kFailed, "there is no table " + table, "`probing tables` lists them"};
}

// What a store has is known there: tables of ours by the names they have here.
constexpr const char* kStoredTables =
    "SELECT replaceOne(name, '_', '.') AS table_name, engine FROM system.tables"
    " WHERE database = currentDatabase() AND name NOT LIKE '%\\\\_local' ORDER BY table_name";

std::string StoredColumns(const std::string& table) {
  return "SELECT name AS column_name, type FROM system.columns WHERE database = currentDatabase()"
         " AND replaceOne(table, '_', '.') = " +
         QuoteForSql(table);
}

Result<int> Run(const Invocation& invocation) {
  Question question;
  question.target = invocation.target;
  question.directory = invocation.directory;
  question.store = invocation.store;
  question.format = invocation.Has("--json") ? "json" : "table";
  if (invocation.arguments.empty()) {
    question.sql = "SELECT table_name, kind, origin, doc FROM probing.tables ORDER BY table_name";
    if (!question.store.empty()) question.sql = kStoredTables;
  } else {
    question.sql = "SELECT column_name, type, unit, doc FROM probing.columns WHERE table_name = " +
                   QuoteForSql(invocation.arguments[0]) + " ORDER BY position";
    if (!question.store.empty()) question.sql = StoredColumns(invocation.arguments[0]);
    RETURN_IF_ERROR(CheckExists(question, invocation.arguments[0]));
  }
  ASSIGN_OR_RETURN(const std::string answer, Query(question));
  Print(question.format == "table" ? PaintedTable(answer) : answer);
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
          .target_may_be_store = true,
          .all_is_fine = true,
          .arguments = Arguments::kOne,
          .options = {{"TABLE", "", "show the columns of this table"}, {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
