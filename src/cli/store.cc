// probing store: what goes to the store of many hosts, and how its tables are made.
#include "cli/commands.h"
#include "cli/daemon_client.h"
#include "cli/output.h"
#include "cli/query_client.h"
#include "wire/store_url.h"

namespace probing::cli {
namespace {

Result<int> PrintDdl(const Invocation& invocation) {
  std::vector<std::pair<std::string, std::string>> fields;
  if (invocation.Has("--database")) fields.emplace_back("database", invocation.Get("--database"));
  if (invocation.Has("--cluster")) fields.emplace_back("cluster", invocation.Get("--cluster"));
  if (invocation.Has("--replicated")) fields.emplace_back("replicated", "1");
  ASSIGN_OR_RETURN(const std::string ddl,
                   GetBytes(std::string(wire::kStoreDdlRoute) + "?" + UrlQuery(fields)));
  Print(ddl);
  return 0;
}

Result<int> Run(const Invocation& invocation) {
  if (!invocation.arguments.empty() && invocation.arguments[0] != "ddl") {
    return Error{Code::kUsage, "store: \"" + invocation.arguments[0] + "\" is not something it does",
                 "`probing store` shows what is sent, `probing store ddl` how tables are made"};
  }
  if (!invocation.arguments.empty()) return PrintDdl(invocation);
  Question question;
  question.sql =
      "SELECT store, table_name, sent, waiting, dropped, lost, problem FROM probing.store ORDER BY "
      "table_name";
  question.format = invocation.Has("--json") ? "json" : "table";
  ASSIGN_OR_RETURN(const std::string answer, Query(question));
  Print(answer);
  return 0;
}

}  // namespace

Command StoreCommand() {
  return {.name = "store",
          .summary = "Show what is sent to the central store (probing.store), and its table definitions",
          .example = "probing store ddl --cluster fleet | clickhouse-client -mn",
          .arguments = Arguments::kOne,
          .options = {{"WORD", "", "ddl prints the statements that make the tables"},
                      {"--database", "NAME", "with ddl: the database they are in (probing)"},
                      {"--cluster", "NAME", "with ddl: tables of a cluster, each server having a part"},
                      {"--replicated", "", "with ddl: each part has copies"},
                      {"--json", "", "print JSON"}},
          .run = Run};
}

}  // namespace probing::cli
