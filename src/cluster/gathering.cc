#include "cluster/gathering.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cluster/gather_sql.h"
#include "cluster/peer_client.h"
#include "cluster/together.h"
#include "query/gathered_rows.h"
#include "wire/contract.h"

namespace probing::cluster {
namespace {

std::string Size(std::int64_t bytes) {
  const bool is_small = bytes < 1 << 20;
  const std::int64_t tenths = bytes * 10 >> (is_small ? 10 : 20);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + (is_small ? " KB" : " MB");
}

Error TooMuch(const std::string& what, std::int64_t bytes, std::int64_t budget_bytes) {
  return {
      Code::kFailed,
      what + " are " + Size(bytes) + " of other hosts, and " + Size(budget_bytes) + " may be gathered",
      "ask for less time (timestamp > now() - interval '1 minute') or fewer columns, ask each host by itself "
      "(-t host:port), or raise probing.cluster.max_bytes"};
}

// A table that a job made, and no job of that host: it has no rows of it, and nothing has failed.
bool HasNoSuchTable(const Error& error) {
  return error.message.starts_with("Catalog Error: Table with name");
}

}  // namespace

std::vector<Member> Gathering::Meet() {
  return members_.Meet(options_.seeds, Deadline::AfterMs(options_.timeout_ms));
}

void Gathering::Fail(const Member& member, const std::string& reason) {
  receipt_.asked[member.address.ToText()] = reason;
  members_.NoteProblem(member.address, reason);
}

std::vector<Gathering::Asked> Gathering::Answering(const Deadline& deadline) {
  std::vector<Asked> asked;
  for (Member& member : members_.Meet(options_.seeds, deadline)) {
    std::string& reason = receipt_.asked[member.address.ToText()];
    if (reason.empty()) reason = member.problem;
    if (reason.empty()) asked.push_back({std::move(member), ""});
  }
  return asked;
}

void Gathering::AskAll(std::vector<Asked>& asked, const std::string& sql,
                       const std::vector<table::Type>& types, const Deadline& deadline) {
  std::vector<std::function<Result<std::string>()>> tasks;
  for (const Asked& each : asked) {
    PeerRequest request{.address = each.member.address,
                        .path = std::string(wire::kQueryRoute),
                        .body = nlohmann::json{{"sql", sql}, {"format", "frame"}}.dump(),
                        .token = members_.token(),
                        .max_bytes = static_cast<std::size_t>(options_.max_bytes)};
    tasks.emplace_back([request = std::move(request), types, deadline]() -> Result<std::string> {
      ASSIGN_OR_RETURN(std::string text, AskPeer(request, deadline));
      // The worker reads it again; but here it is known whose fault it is.
      RETURN_IF_ERROR(query::GatheredRows::Parse(text, types));
      return text;
    });
  }
  std::vector<std::optional<Result<std::string>>> answers = Together(std::move(tasks), deadline);
  std::vector<Asked> answered;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (answers[i] && !answers[i]->ok() && HasNoSuchTable(answers[i]->error())) continue;
    if (!answers[i] || !answers[i]->ok()) {
      Fail(asked[i].member, answers[i] ? answers[i]->error().message : "did not answer in time");
      continue;
    }
    asked[i].answer = std::move(**answers[i]);
    answered.push_back(std::move(asked[i]));
  }
  asked = std::move(answered);
}

Result<std::vector<std::string>> Gathering::Gather(const query::GatherRequest& request) {
  // Three rounds, a third of the time each: who hangs in one is given up in time for the others' rows to
  // come.
  const auto by_end_of = [this](int round) {
    return Deadline::AfterNs(options_.timeout_ms * 1'000'000 * round / 3);
  };
  const Deadline met = by_end_of(1);
  const Deadline counted = by_end_of(2);
  const Deadline deadline = by_end_of(3);
  const std::int64_t budget_bytes = options_.max_bytes - receipt_.bytes;
  std::vector<Asked> asked = Answering(met);
  if (request.is_stored && !asked.empty()) {  // others are small, and would be made twice
    const std::vector<table::Type> two_numbers(2, table::Type::kInt64);
    AskAll(asked, CountSql(request), two_numbers, counted);
    std::int64_t rows = 0;
    for (const Asked& each : asked) {
      ASSIGN_OR_RETURN(const query::GatheredRows counts,
                       query::GatheredRows::Parse(each.answer, two_numbers));
      if (counts.size() != 1) continue;
      rows += std::clamp<std::int64_t>(counts.Number(0, 0), 0, INT32_MAX);
      receipt_.dropped += std::max<std::int64_t>(0, counts.Number(1, 0));
    }
    const std::int64_t bytes = rows * RowBytes(request);
    if (bytes > budget_bytes)
      return TooMuch(std::to_string(rows) + " rows of " + request.table, bytes, budget_bytes);
  }
  AskAll(asked, RowsSql(request), TypesOf(request), deadline);
  std::vector<std::string> texts;
  std::int64_t bytes = 0;
  for (Asked& each : asked) {
    bytes += static_cast<std::int64_t>(each.answer.size());
    texts.push_back(std::move(each.answer));
  }
  if (bytes > budget_bytes) return TooMuch("the rows of " + request.table, bytes, budget_bytes);
  receipt_.bytes += bytes;
  return texts;
}

}  // namespace probing::cluster
