#include "history/process.h"

#include <poll.h>
#include <sys/wait.h>

#include <thread>

#include "base/clock.h"
#include "query/protocol.h"
#include "query/spawn.h"

namespace probing::history {
namespace {

constexpr std::int64_t kFrameTimeoutMs = 1000;  // for the rest of a frame that has begun

}  // namespace

Result<std::unique_ptr<HistoryProcess>> HistoryProcess::Start(const std::string& program,
                                                              const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(query::Spawned spawned, query::SpawnWorker(program, arguments));
  return std::unique_ptr<HistoryProcess>(new HistoryProcess(spawned.pid, std::move(spawned.socket)));
}

HistoryProcess::~HistoryProcess() {
  socket_.Reset();
  std::thread([pid = pid_] {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }).detach();
}

Result<void> HistoryProcess::Send(const StateMessage& message, const std::vector<int>& ring_fds) {
  for (std::size_t at = 0; at < ring_fds.size(); at += query::kMaxFilesInFrame) {
    const std::size_t end = std::min(ring_fds.size(), at + query::kMaxFilesInFrame);
    const std::vector<int> files(ring_fds.begin() + static_cast<std::ptrdiff_t>(at),
                                 ring_fds.begin() + static_cast<std::ptrdiff_t>(end));
    RETURN_IF_ERROR(query::SendFrame(socket_.get(), query::FrameType::kFiles, "", files));
  }
  return query::SendFrame(socket_.get(), query::FrameType::kHistory, Encode(message));
}

Result<void> HistoryProcess::Receive() {
  while (true) {
    pollfd watched{socket_.get(), POLLIN, 0};
    if (poll(&watched, 1, 0) <= 0) return {};
    ASSIGN_OR_RETURN(const query::Frame frame,
                     query::ReceiveFrame(socket_.get(), Deadline::AfterMs(kFrameTimeoutMs)));
    StatusMessage status;
    if (frame.type != query::FrameType::kHistoryStatus || !Decode(frame.payload, status))
      return Error{Code::kFailed, "the history worker said something odd", ""};
    status_ = std::move(status);
  }
}

}  // namespace probing::history
