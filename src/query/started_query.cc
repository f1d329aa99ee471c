#include "query/started_query.h"

#include "query/client.h"

namespace probing::query {

StartedQuery::~StartedQuery() {
  if (worker_ != nullptr) client_.GiveBack(nullptr);
}

std::optional<QueryAnswer> StartedQuery::Take() {
  first_ = worker_->Next(request_);
  if (!first_->ok() || (*first_)->type != FrameType::kEnd) return std::nullopt;
  return Finish();
}

QueryAnswer StartedQuery::Finish() {
  QueryAnswer answer;
  if (!first_) first_ = worker_->Next(request_);
  const WorkerProcess::Fate fate = worker_->Follow(request_, std::move(*first_), {}, answer);
  client_.GiveBack(fate == WorkerProcess::Fate::kAnswered ? std::move(worker_) : nullptr);
  worker_.reset();
  return fate == WorkerProcess::Fate::kNeverBegan ? client_.Run(request_) : answer;
}

}  // namespace probing::query
