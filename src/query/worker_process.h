// A running query worker, as probingd sees it. Ends with this object.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/scoped_fd.h"
#include "query/protocol.h"

namespace probing::query {

class WorkerProcess {
 public:
  // Starts the program and waits until it can answer.
  static Result<std::unique_ptr<WorkerProcess>> Start(const std::string& program,
                                                      const std::vector<std::string>& arguments,
                                                      const OpenMessage& open);
  ~WorkerProcess() { End(); }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // What became of a query. When it is not kAnswered, the worker must not be used again.
  enum class Fate { kAnswered, kNeverBegan, kEnded };
  Fate Ask(const QueryRequest& request, const Output& output, QueryAnswer& answer);

  // The same in steps, for whoever waits for the socket in another way. Send() is false when the query
  // never began; Next() waits for a frame; Follow() goes on with one until the query has ended.
  bool Send(const QueryRequest& request);
  Result<Frame> Next(const QueryRequest& request);
  Result<Frame> Take() { return ReceiveFrame(socket_.get(), deadline_); }  // when it is known to be there
  Fate Follow(const QueryRequest& request, Result<Frame> frame, const Output& output, QueryAnswer& answer);
  int socket() const { return socket_.get(); }

  pid_t pid() const { return pid_; }
  std::int64_t memory_bytes() const { return memory_bytes_; }
  std::int64_t idle_since_ns = 0;
  std::uint64_t generation = 0;  // QueryClient::Renew()

 private:
  WorkerProcess(pid_t pid, ScopedFd socket, std::int64_t memory_bytes)
      : pid_(pid), socket_(std::move(socket)), memory_bytes_(memory_bytes) {}
  Result<void> SendQuery(const QueryRequest& request);
  Result<void> SendRows(const QueryRequest& request, std::string_view payload);
  Result<void> SendGathered(const QueryRequest& request, std::string_view payload);
  // Its fate when this was its last frame.
  std::optional<Fate> Handle(const QueryRequest& request, const Frame& frame, const Output& output,
                             QueryAnswer& answer);
  int End();  // kills and reaps; the status of waitpid
  SqlError HowItEnded(const QueryRequest& request, const Error& error);

  pid_t pid_;
  ScopedFd socket_;
  std::int64_t memory_bytes_;
  Deadline deadline_ = Deadline::AfterMs(0);  // of the query that runs
};

}  // namespace probing::query
