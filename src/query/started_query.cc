#include "query/started_query.h"

#include "query/client.h"

namespace probing::query {

StartedQuery::StartedQuery(QueryClient& client, const QueryRequest& request,
                           std::unique_ptr<WorkerProcess> worker)
    : busy_(new Busy{client, std::move(worker)}), request_(request) {}

StartedQuery::~StartedQuery() {
  // Its answer will come and nobody knows it: the worker is of no use any more.
  if (is_sent_ && busy_->worker != nullptr) GiveBack(*busy_, false);
}

void StartedQuery::GiveBack(Busy& busy, bool can_go_on) {
  std::unique_ptr<WorkerProcess> worker = std::move(busy.worker);
  busy.client.GiveBack(can_go_on ? std::move(worker) : nullptr);
}

bool StartedQuery::Send() {
  is_sent_ = busy_->worker->Send(request_);
  if (is_sent_)
    ++busy_->queries;
  else
    GiveBack(*busy_, false);
  return is_sent_;
}

std::unique_ptr<StartedQuery> StartedQuery::SendNext(const QueryRequest& request) {
  if (is_orphan() || !busy_->client.Fits(*busy_->worker, request)) return nullptr;
  std::unique_ptr<StartedQuery> next(new StartedQuery(busy_, request));
  // One that cannot be sent is noticed by those before it.
  next->is_sent_ = busy_->worker->Send(request);
  if (!next->is_sent_) return nullptr;
  ++busy_->queries;
  return next;
}

void StartedQuery::Abandon() {
  is_sent_ = false;
  busy_->is_spoiled = true;
}

int StartedQuery::socket() const { return busy_->worker->socket(); }

bool StartedQuery::is_orphan() const { return busy_->worker == nullptr; }

std::optional<QueryAnswer> StartedQuery::Take() {
  first_ = busy_->worker->Take();
  if (!first_->ok() || (*first_)->type != FrameType::kEnd) return std::nullopt;
  return Finish();
}

QueryAnswer StartedQuery::Finish() {
  QueryAnswer answer;
  if (is_orphan()) return busy_->client.Run(request_);
  if (!first_) first_ = busy_->worker->Next(request_);
  const WorkerProcess::Fate fate = busy_->worker->Follow(request_, std::move(*first_), {}, answer);
  is_sent_ = false;
  const bool is_last = --busy_->queries == 0 || busy_->is_spoiled;
  const bool can_go_on = fate == WorkerProcess::Fate::kAnswered;
  if (is_last || !can_go_on) GiveBack(*busy_, can_go_on && !busy_->is_spoiled);
  return fate == WorkerProcess::Fate::kNeverBegan ? busy_->client.Run(request_) : answer;
}

}  // namespace probing::query
