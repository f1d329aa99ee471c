#include "history/sender.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "base/clock.h"
#include "base/text.h"
#include "query/packing.h"

namespace probing::history {
namespace {

constexpr std::int64_t kFirstPauseNs = 500'000'000;
constexpr std::int64_t kLongestPauseNs = 10'000'000'000;
constexpr std::int64_t kRefusedPauseNs = 5'000'000'000;
constexpr std::int64_t kInsertMs = 60'000;
constexpr auto kLook = std::chrono::milliseconds(200);

// Inserts of this user on this host have names of their own: one is at work at a time.
std::string InsertPrefix() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return "probing-" + std::string(host.data()) + "-" + std::to_string(geteuid()) + "-";
}

std::string TimeLiteral(std::int64_t time_ns) {
  return "toDateTime(" + std::to_string(std::clamp<std::int64_t>(time_ns / 1'000'000'000, 0, UINT32_MAX)) +
         ", 'UTC')";
}

bool TakeText(std::string_view& text, std::string& value) {
  std::uint64_t length = 0;
  for (int shift = 0;; shift += 7) {
    if (text.empty() || shift > 28) return false;
    const auto byte = static_cast<unsigned char>(text.front());
    text.remove_prefix(1);
    length |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  if (length > text.size()) return false;
  value = text.substr(0, length);
  text.remove_prefix(length);
  return true;
}

}  // namespace

Sender::Sender(Spool& spool, wire::StoreUrl url)
    : spool_(spool),
      client_(std::move(url)),
      insert_prefix_(InsertPrefix()),
      pause_ns_(kFirstPauseNs),
      thread_([this] { Run(); }) {}

Sender::~Sender() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  woken_.notify_all();
  thread_.join();
}

void Sender::Wake() {
  {
    const std::lock_guard lock(mutex_);
    has_news_ = true;
    is_idle_ = false;
  }
  woken_.notify_all();
}

void Sender::Drain(std::int64_t timeout_ms) {
  Wake();
  std::unique_lock lock(mutex_);
  idle_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return is_idle_; });
}

std::map<std::string, StoreStatus> Sender::status() const {
  std::map<std::string, StoreStatus> status;
  std::string away;
  {
    const std::lock_guard lock(mutex_);
    status = status_;
    away = away_problem_;
  }
  for (const auto& [table, counts] : spool_.counts()) {
    status[table].table = table;
    status[table].waiting = counts.waiting;
    status[table].dropped = counts.dropped;
    // A server that is away is so for all of them.
    if (counts.waiting > 0 && status[table].problem.empty()) status[table].problem = away;
  }
  return status;
}

void Sender::Run() noexcept {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!has_news_ && is_idle_) woken_.wait_for(lock, kLook, [this] { return has_news_ || leaving_; });
      if (leaving_) return;
      has_news_ = false;
    }
    const bool went_on = MonotonicNs() >= away_until_ns_ && SendOne();
    const std::lock_guard lock(mutex_);
    is_idle_ = !went_on && !has_news_;
    if (is_idle_) idle_.notify_all();
  }
}

bool Sender::SendOne() {
  std::set<std::string> refused;
  for (const auto& [table, time_ns] : not_before_) {
    if (MonotonicNs() < time_ns) refused.insert(table);
  }
  std::vector<Spool::Entry> entries = spool_.Take(refused);
  if (entries.empty()) return false;
  const std::string table = entries.front().table;
  const Outcome outcome = Send(entries);
  if (outcome == Outcome::kArrived) {
    std::int64_t rows = 0;
    for (const Spool::Entry& entry : entries) {
      spool_.Remove(entry);
      rows += entry.rows;
    }
    spool_.PutBack();  // those that were none of this insert
    pause_ns_ = kFirstPauseNs;
    not_before_.erase(table);
    const std::lock_guard lock(mutex_);
    StoreStatus& status = status_[table];
    status.sent += rows;
    status.problem.clear();
    away_problem_.clear();
    return true;
  }
  spool_.PutBack();
  if (outcome == Outcome::kRefused) {
    not_before_[table] = MonotonicNs() + kRefusedPauseNs;
    return true;  // others may be luckier
  }
  away_until_ns_ = MonotonicNs() + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
  return false;
}

void Sender::Fail(const std::string& table, const Error& error) {
  const std::lock_guard lock(mutex_);
  (is_away_ ? away_problem_ : status_[table].problem) = error.message;
}

// Leaves in `entries` those that it is about: what has other columns, or cannot be read, is not.
Sender::Outcome Sender::Send(std::vector<Spool::Entry>& entries) {
  std::vector<Spool::Entry> sent;
  std::optional<store::Shape> shape;
  std::uint64_t name = 0;
  std::string data;
  const auto failed = [&](const Error& error) {
    Fail(entries.front().table, error);
    return is_away_ ? Outcome::kAway : Outcome::kRefused;
  };
  for (Spool::Entry& entry : entries) {
    const std::optional<Batch> batch = spool_.Load(entry);
    if (!batch || (shape && *shape != batch->shape())) continue;
    if (!shape) {
      shape = batch->shape();
      name = batch->id();
      if (const Result<void> prepared = PrepareTables(*shape); !prepared.ok())
        return failed(prepared.error());
    }
    if (entry.was_sent) {
      const Result<std::vector<RowRange>> there = RowsThere(*batch);
      if (!there.ok()) return failed(there.error());
      data += batch->DataWithout(*there);
    } else {
      data += batch->data();
    }
    sent.push_back(entry);
  }
  entries = std::move(sent);
  if (data.empty()) return Outcome::kArrived;
  for (Spool::Entry& entry : entries) spool_.MarkSent(entry);
  // Through a Distributed table the answer comes when the servers behind it have the rows.
  const Result<std::string> answer =
      Ask(store::InsertStatement(client_.url().database, *shape),
          {{"insert_distributed_sync", "1"}, {"query_id", insert_prefix_ + std::to_string(name)}}, data);
  if (answer.ok()) return Outcome::kArrived;
  prepared_.clear();  // somebody may have changed the table
  return failed(answer.error());
}

Result<std::string> Sender::Ask(std::string sql, store::Fields settings, std::string_view data) {
  store::Question question{.sql = std::move(sql), .data = data, .settings = std::move(settings)};
  if (!data.empty()) question.timeout_ms = kInsertMs;
  Result<store::ServerAnswer> answer = client_.Ask(question);
  is_away_ = !answer.ok();
  if (!answer.ok()) return answer.error();
  if (!answer->ok()) return RefusalError(client_.url(), *answer);
  return std::move(answer->body);
}

// All that are declared are made at once, so that questions about what nobody has sent yet have an answer.
Result<void> Sender::PrepareTables(const store::Shape& shape) {
  if (std::ranges::find(prepared_, shape) != prepared_.end()) return {};
  RETURN_IF_ERROR(PrepareTable(shape));
  if (std::exchange(has_declared_, true)) return {};
  for (const store::Shape& declared : store::DeclaredShapes()) {
    if (!PrepareTable(declared).ok()) break;  // it is tried again when there are rows of it
  }
  return {};
}

// Tables are made by whoever needs them first. Who may not make any needs them to be there.
Result<void> Sender::PrepareTable(const store::Shape& shape) {
  const store::DdlOptions options{.database = client_.url().database, .cluster = "", .replicated = false};
  const std::string stored = store::StoredName(shape.table);
  ASSIGN_OR_RETURN(const std::string engine,
                   Ask("SELECT engine FROM system.tables WHERE database = " +
                       store::Literal(options.database) + " AND name = " + store::Literal(stored)));
  if (engine.empty()) {
    ASSIGN_OR_RETURN(const std::string made, Ask(store::DatabaseDdl(options)));
    for (const std::string& statement : store::TableDdl(shape, options)) {
      ASSIGN_OR_RETURN(const std::string done, Ask(statement));
    }
  } else if (!engine.starts_with("Distributed")) {
    RETURN_IF_ERROR(AddColumns(shape, stored));
  }
  prepared_.push_back(shape);
  return {};
}

// A later version of a table, or another job's, may have more of them. (Those of a Distributed table have to
// be added on every server, which is not ours to do: then the insert says what is missing.)
Result<void> Sender::AddColumns(const store::Shape& shape, const std::string& stored) {
  const std::string& database = client_.url().database;
  ASSIGN_OR_RETURN(const std::string known,
                   Ask("SELECT name FROM system.columns WHERE database = " + store::Literal(database) +
                       " AND table = " + store::Literal(stored) + " FORMAT TabSeparatedRaw"));
  for (const store::StoredColumn& column : store::StoredColumns(shape)) {
    if (("\n" + known).find("\n" + column.name + "\n") != std::string::npos) continue;
    ASSIGN_OR_RETURN(const std::string done,
                     Ask("ALTER TABLE " + store::Quoted(database) + "." + store::Quoted(stored) +
                         " ADD COLUMN " + store::Quoted(column.name) + " " + column.type));
  }
  return {};
}

Result<std::vector<RowRange>> Sender::RowsThere(const Batch& batch) {
  // The first try may be at work still: a server that was held up, and goes on.
  const Result<std::string> running = Ask("SELECT count() FROM system.processes WHERE startsWith(query_id, " +
                                          store::Literal(insert_prefix_) + ")");
  if (running.ok() && !running->starts_with("0"))
    return Error{Code::kFailed, "an insert that was given up is still at work", ""};
  const std::string time = store::Quoted(batch.shape().columns.front().name);
  const std::string sql =
      "SELECT probing_ring, probing_lane, probing_row FROM " + store::Quoted(client_.url().database) + "." +
      store::Quoted(store::StoredName(batch.shape().table)) + " WHERE " + time +
      " >= " + TimeLiteral(batch.min_ns()) + " AND " + time + " <= " + TimeLiteral(batch.max_ns()) +
      " AND probing_batch = " + std::to_string(batch.id()) + " FORMAT RowBinary";
  // Without one of its servers a Distributed table does not know.
  ASSIGN_OR_RETURN(const std::string answer, Ask(sql, {{"skip_unavailable_shards", "0"}}));
  std::vector<RowRange> there;
  for (std::string_view rest = answer; !rest.empty();) {
    RowRange row{.ring = "", .lane = 0, .first_row = 0, .rows = 1};
    const bool complete = TakeText(rest, row.ring) && rest.size() >= 16;
    if (!complete) return Error{Code::kFailed, "the rows of a batch cannot be read", ""};
    query::Unpacker(rest.substr(0, 8)).Get(row.lane);
    query::Unpacker(rest.substr(8, 8)).Get(row.first_row);
    rest.remove_prefix(16);
    there.push_back(std::move(row));
  }
  return there;
}

}  // namespace probing::history
