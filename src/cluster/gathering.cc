#include "cluster/gathering.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "cluster/gather_sql.h"
#include "cluster/peer_client.h"
#include "cluster/together.h"
#include "query/gathered_rows.h"
#include "wire/contract.h"

namespace probing::cluster {
namespace {

// A clock that is set by the network is milliseconds off, not seconds.
constexpr double kClockToleranceMs = 1000;
constexpr std::int64_t kMaxCountBytes = 64 << 10;  // three numbers, or why not
constexpr std::int64_t kMaxNewBytes = 1 << 20;     // of rows that were written after they were counted

std::string Size(std::int64_t bytes) {
  const bool is_small = bytes < 1 << 20;
  const std::int64_t tenths = bytes * 10 >> (is_small ? 10 : 20);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + (is_small ? " KB" : " MB");
}

Error TooMuch(const std::string& what, std::int64_t bytes, std::int64_t budget_bytes) {
  return {Code::kFailed,
          what + " are " + Size(bytes) + " of other hosts, and " + Size(budget_bytes) + " may be gathered",
          "ask for less time (timestamp > now() - interval '1 minute') or fewer columns, raise "
          "probing.cluster.max_bytes, or have the rows sent to ClickHouse (probing.store) and ask there"};
}

// A table that a job made, and no job of that host: it has no rows of it, and nothing has failed.
bool HasNoSuchTable(const Error& error) {
  return error.message.starts_with("table ") && error.message.find(" does not exist") != std::string::npos;
}

}  // namespace

Company Gathering::Meet() {
  Company company;
  company.members = members_.Meet(options_.wanted, Deadline::AfterMs(options_.timeout_ms));
  company.epoch = members_.epoch();
  return company;
}

Receipt Gathering::receipt() const {
  Receipt receipt = receipt_;
  receipt.epoch = members_.epoch();
  return receipt;
}

void Gathering::Fail(const Member& member, std::string reason) {
  members_.NoteProblem(member, reason);
  if (const std::string version = member.VersionProblem(); !version.empty())
    reason += " (it " + version + ")";
  receipt_.asked[member.node] = std::move(reason);
}

// What it said before may not be so any more, and what it kept in memory has gone.
void Gathering::NoteRestart(Member& member, const std::string& instance) {
  receipt_.restarted.insert(member.node);
  members_.NoteRestart(member, instance);
  member.instance = instance;
}

std::vector<Gathering::Asked> Gathering::Answering(const Deadline& deadline) {
  std::vector<Asked> asked;
  for (Member& member : members_.Meet(options_.wanted, deadline)) {
    std::string& reason = receipt_.asked[member.node];
    if (reason.empty()) reason = member.problem;
    if (!reason.empty()) continue;
    if (std::abs(member.clock_offset_ms) > kClockToleranceMs + member.clock_error_ms)
      receipt_.clocks[member.node] = member.clock_offset_ms;
    asked.push_back({.member = std::move(member), .answer = "", .max_bytes = options_.max_bytes});
  }
  if (receipt_.epoch_before == 0) receipt_.epoch_before = members_.epoch();
  return asked;
}

void Gathering::AskAll(std::vector<Asked>& asked, const std::string& sql,
                       const std::vector<table::Type>& types, const Deadline& deadline) {
  std::vector<std::function<Result<PeerAnswer>()>> tasks;
  for (const Asked& each : asked) {
    PeerRequest request{.address = each.member.address,
                        .path = std::string(wire::kQueryRoute),
                        .body = nlohmann::json{{"sql", sql}, {"format", "frame"}}.dump(),
                        .token = members_.token(),
                        .max_bytes = static_cast<std::size_t>(each.max_bytes)};
    tasks.emplace_back([request = std::move(request), types, deadline]() -> Result<PeerAnswer> {
      ASSIGN_OR_RETURN(PeerAnswer answer, AskPeer(request, deadline));
      // The worker reads it again; but here it is known whose fault it is.
      RETURN_IF_ERROR(query::GatheredRows::Parse(answer.body, types));
      return answer;
    });
  }
  std::vector<std::optional<Result<PeerAnswer>>> answers = Together(std::move(tasks), deadline);
  std::vector<Asked> answered;
  std::set<std::string> instances{members_.instance()};
  for (std::size_t i = 0; i < asked.size(); ++i) {
    Member& member = asked[i].member;
    const bool is_like_us = member.VersionProblem().empty();
    if (answers[i] && !answers[i]->ok() && is_like_us && HasNoSuchTable(answers[i]->error())) continue;
    if (!answers[i] || !answers[i]->ok()) {
      Fail(member, answers[i] ? answers[i]->error().message : "did not answer in time");
      continue;
    }
    PeerAnswer& answer = **answers[i];
    if (!answer.instance.empty() && answer.instance != member.instance) NoteRestart(member, answer.instance);
    // Two addresses of one host: since when is known only now.
    if (!instances.insert(member.instance).second) continue;
    asked[i].answer = std::move(answer.body);
    answered.push_back(std::move(asked[i]));
  }
  asked = std::move(answered);
}

Result<void> Gathering::Count(std::vector<Asked>& asked, const query::GatherRequest& request,
                              const Deadline& deadline) {
  const std::vector<table::Type> three_numbers(3, table::Type::kInt64);
  for (Asked& each : asked) each.max_bytes = kMaxCountBytes;
  AskAll(asked, CountSql(request), three_numbers, deadline);
  for (Asked& each : asked) {
    ASSIGN_OR_RETURN(const query::GatheredRows counts,
                     query::GatheredRows::Parse(each.answer, three_numbers));
    const auto number = [&](std::size_t column) {
      const std::int64_t said = counts.size() == 1 ? counts.Number(column, 0) : 0;
      return std::clamp<std::int64_t>(said, 0, INT32_MAX);
    };
    each.rows = number(0);
    receipt_.dropped += number(1);
    each.bytes = each.rows * RowBytes(request) + number(2);
    each.max_bytes = std::min(options_.max_bytes, 2 * each.bytes + kMaxNewBytes);
  }
  return {};
}

Result<void> Gathering::Plan(std::vector<Asked> asked, const query::GatherRequest& request,
                             const Deadline& deadline) {
  if (request.is_stored) RETURN_IF_ERROR(Count(asked, request, deadline));
  for (const Asked& each : asked) {
    PlannedShare share{.table = request.table, .node = each.member.node, .rows = {}, .bytes = each.bytes};
    if (request.is_stored) share.rows = each.rows;
    receipt_.plan.push_back(std::move(share));
  }
  return {};
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
  if (request.is_rehearsal) {
    RETURN_IF_ERROR(Plan(std::move(asked), request, counted));
    return std::vector<std::string>();
  }
  if (request.is_stored && !asked.empty()) {  // others are small, and would be made twice
    RETURN_IF_ERROR(Count(asked, request, counted));
    std::int64_t rows = 0;
    std::int64_t bytes = 0;
    for (const Asked& each : asked) rows += each.rows, bytes += each.bytes;
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
