// QueryClient: probingd's side of the query workers (worker.h).
//
//   QueryClient client({.view_directory = home + "/.config/probing"});
//   QueryAnswer answer = client.Run(request);          // or with an Output, which gets the bytes as they
//   come
//
// A worker is started when the first query comes, answers one query at a time, and is ended when
// nobody has asked for a while. A query that cannot be stopped in time, or that takes the worker
// down, costs that worker; the next query gets another one.
// Thread-safe. Run() blocks: call it from a thread that may. Start() is for the others.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "query/request.h"

namespace probing::query {

struct ClientOptions {
  std::string program = "/proc/self/exe";
  std::vector<std::string> arguments = {"--query-worker"};
  std::string view_directory;
  std::size_t max_workers = 2;
  std::int64_t idle_ms = 60'000;
};

class StartedQuery;
class WorkerProcess;

class QueryClient {
 public:
  explicit QueryClient(ClientOptions options);
  ~QueryClient();
  QueryClient(const QueryClient&) = delete;
  QueryClient& operator=(const QueryClient&) = delete;

  QueryAnswer Run(const QueryRequest& request, const Output& output = {});

  // The same without waiting, when a worker has nothing to do; otherwise null.
  std::unique_ptr<StartedQuery> Start(const QueryRequest& request);

  // As many queries run as there may be workers: Start() would be in vain, and Run() would wait.
  bool is_full() const;

  // Starts a worker that waits, so that the first query need not (some 40 ms).
  Result<void> Warm(std::int64_t memory_bytes);

  // Later queries get workers that start after this: what one reads when it starts has changed.
  void Renew();

  std::vector<std::int64_t> worker_pids() const;

 private:
  friend class StartedQuery;
  bool Fits(const WorkerProcess& worker, const QueryRequest& request) const;
  // REQUIRES: mutex_ is held, there is an idle worker.
  bool FirstIdleFits(std::int64_t memory_bytes) const;
  std::unique_ptr<WorkerProcess> TakeFirstIdle();
  Result<std::unique_ptr<WorkerProcess>> Take(std::int64_t memory_bytes, const Deadline& deadline,
                                              const Cancellation* cancellation);
  void GiveBack(std::unique_ptr<WorkerProcess> worker);
  void EndIdleWorkers();

  const ClientOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable freed_;    // there is room for a worker
  std::condition_variable leaving_;  // for the reaper, which nothing else needs to wake
  std::list<std::unique_ptr<WorkerProcess>> idle_;
  std::size_t busy_ = 0;
  std::uint64_t generation_ = 0;  // of workers that may still be used
  bool closing_ = false;
  std::thread reaper_;
};

}  // namespace probing::query
