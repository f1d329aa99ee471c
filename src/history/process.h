// The history worker, as probingd sees it. Ends by itself when this object goes: it has rows to write
// first.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "history/messages.h"

namespace probing::history {

class HistoryProcess {
 public:
  static Result<std::unique_ptr<HistoryProcess>> Start(const std::string& program,
                                                       const std::vector<std::string>& arguments);
  ~HistoryProcess();
  HistoryProcess(const HistoryProcess&) = delete;
  HistoryProcess& operator=(const HistoryProcess&) = delete;

  // One descriptor for each entry of message.rings. An error means that the worker has ended.
  Result<void> Send(const StateMessage& message, const std::vector<int>& ring_fds);

  // Takes what the worker has said, without waiting. An error means that it has ended.
  Result<void> Receive();
  const StatusMessage& status() const { return status_; }

  pid_t pid() const { return pid_; }

 private:
  HistoryProcess(pid_t pid, ScopedFd socket) : pid_(pid), socket_(std::move(socket)) {}

  pid_t pid_;
  ScopedFd socket_;
  StatusMessage status_;
};

}  // namespace probing::history
