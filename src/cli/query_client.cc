#include "cli/query_client.h"

#include "cli/terminal.h"
#include "wire/contract.h"

namespace probing::cli {
namespace {

// 0: no terminal, so nothing has to be cut.
int TerminalColumns() {
  const auto size = FindTerminalSize();
  return size ? size->columns : 0;
}

}  // namespace

Result<Bytes> QueryHosts(const Question& question) {
  Json request{{"sql", question.sql}, {"format", question.format}};
  if (question.target) request["target"] = *question.target;
  if (!question.directory.empty()) request["directory"] = question.directory;
  if (!question.store.empty()) request["store"] = question.store;
  if (question.job) request["job"] = *question.job;
  if (question.format == "table") request["width"] = TerminalColumns();
  // The daemon keeps the time (probing.query.timeout). ^C ends this command and with it the query.
  return PostForBytes(std::string(wire::kQueryRoute), request, Patience::kEndless);
}

Result<std::string> Query(const Question& question) {
  ASSIGN_OR_RETURN(Bytes answer, QueryHosts(question));
  return std::move(answer.bytes);
}

}  // namespace probing::cli
