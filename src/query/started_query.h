// A query that a worker has begun, for a thread that must not wait for it.
//
// The socket is readable when there is something to take. Mostly that is all of the answer, and no other
// thread has to be woken up for it, which takes as long as a small query does.
//
// Several can be sent to a worker at once, which answers them in that order: each is taken or finished when
// those before it have been.
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
  StartedQuery(QueryClient& client, const QueryRequest& request, std::unique_ptr<WorkerProcess> worker);
  ~StartedQuery();
  StartedQuery(const StartedQuery&) = delete;
  StartedQuery& operator=(const StartedQuery&) = delete;

  // False when there is nothing to wait for: the worker had ended.
  bool Send();

  // Another query for the same worker. Null when it is none for that one.
  // REQUIRES: this is the last that was sent.
  std::unique_ptr<StartedQuery> SendNext(const QueryRequest& request);

  // REQUIRES: its worker has not ended.
  int socket() const;

  // Somebody else will ask this one: its answer is not waited for, and the worker ends with the query before.
  void Abandon();

  // The worker has ended before the turn of this one came: it has to be asked again.
  bool is_orphan() const;

  // The answer, when all of it is here. REQUIRES: the socket is readable.
  std::optional<QueryAnswer> Take();

  // Waits for the answer, until the query's time is over or it is cancelled. After Take(), or instead.
  QueryAnswer Finish();

 private:
  // A worker and who has to do with it, all on one thread at a time. Shared by its queries.
  struct Busy {
    QueryClient& client;
    std::unique_ptr<WorkerProcess> worker;  // null when it was given back, or has ended
    int queries = 0;                        // sent, and not answered
    bool is_spoiled = false;                // answers will come that nobody waits for
  };
  StartedQuery(std::shared_ptr<Busy> busy, const QueryRequest& request)
      : busy_(std::move(busy)), request_(request) {}
  static void GiveBack(Busy& busy, bool can_go_on);

  std::shared_ptr<Busy> busy_;
  const QueryRequest& request_;
  bool is_sent_ = false;  // and not answered
  std::optional<Result<Frame>> first_;
};

}  // namespace probing::query
