// A query that a worker has begun, for a thread that must not wait for it.
//
// The socket is readable when there is something to take. Mostly that is all of the answer, and no other
// thread has to be woken up for it, which takes as long as a small query does.
// Without Finish() or an answer taken, the end of this object ends the worker.
#pragma once

#include <memory>
#include <optional>

#include "query/protocol.h"
#include "query/worker_process.h"

namespace probing::query {

class QueryClient;

class StartedQuery {
 public:
  // By QueryClient::Start(). REQUIRES: client and request outlive this.
  StartedQuery(QueryClient& client, const QueryRequest& request, std::unique_ptr<WorkerProcess> worker)
      : client_(client), request_(request), worker_(std::move(worker)) {}
  ~StartedQuery();
  StartedQuery(const StartedQuery&) = delete;
  StartedQuery& operator=(const StartedQuery&) = delete;

  // False when there is nothing to wait for: the worker had ended.
  bool Send() { return worker_->Send(request_); }

  int socket() const { return worker_->socket(); }

  // The answer, when all of it is here. REQUIRES: the socket is readable.
  std::optional<QueryAnswer> Take();

  // Waits for the answer, until the query's time is over or it is cancelled. After Take(), or instead.
  QueryAnswer Finish();

 private:
  QueryClient& client_;
  const QueryRequest& request_;
  std::unique_ptr<WorkerProcess> worker_;
  std::optional<Result<Frame>> first_;
};

}  // namespace probing::query
