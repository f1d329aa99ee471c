#include "cli/query_client.h"

#include "cli/job.h"
#include "cli/output.h"
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

Result<Question> QuestionOf(const Invocation& invocation) {
  Question question{.target = invocation.target,
                    .directory = invocation.directory,
                    .store = invocation.store,
                    .job = invocation.job};
  if (question.job && question.job->empty()) {
    ASSIGN_OR_RETURN(const auto ranks, RanksOfJob(""));
    question.job = ranks.front().identity.job;
  }
  return question;
}

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

std::string PaintedTable(const std::string& table) {
  const std::size_t header = table.find('\n');
  const std::size_t rule = header == std::string::npos ? header : table.find('\n', header + 1);
  if (rule == std::string::npos) return table;
  const std::size_t count = table.rfind('\n', table.size() - 2);  // "(3 rows)"
  if (count == std::string::npos || count < rule) return table;
  return Painted(table.substr(0, header), Colour::kBold) + "\n" +
         Painted(table.substr(header + 1, rule - header - 1), Colour::kDim) +
         table.substr(rule, count - rule) + "\n" +
         Painted(table.substr(count + 1, table.size() - count - 2), Colour::kDim) + "\n";
}

Result<std::string> Query(const Question& question) {
  ASSIGN_OR_RETURN(Bytes answer, QueryHosts(question));
  return std::move(answer.bytes);
}

}  // namespace probing::cli
