#include "query/worker_process.h"

#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "query/spawn.h"
#include "table/registry.h"

namespace probing::query {
namespace {

constexpr std::int64_t kStartTimeoutMs = 20'000;
// The worker stops a query itself when its time is over; this is for the one that it cannot stop.
constexpr std::int64_t kGraceMs = 1000;
// Most queries that nobody wants any more end sooner than another worker would have started.
constexpr std::int64_t kUnwantedMs = 50;

Error Damaged() {
  return Error{Code::kFailed, "the query worker's answer is damaged", "run the query again"};
}

Result<void> TakeBytes(std::string_view bytes, const Output& output, QueryAnswer& answer) {
  if (output) return output(bytes);
  answer.body += bytes;
  return {};
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(const std::string& program,
                                                            const std::vector<std::string>& arguments,
                                                            const OpenMessage& open) {
  ASSIGN_OR_RETURN(Spawned spawned, SpawnWorker(program, arguments));
  std::unique_ptr<WorkerProcess> worker(
      new WorkerProcess(spawned.pid, std::move(spawned.socket), open.memory_bytes));
  RETURN_IF_ERROR(SendFrame(worker->socket_.get(), FrameType::kOpen, Encode(open)));
  Result<Frame> ready = ReceiveFrame(worker->socket_.get(), Deadline::AfterMs(kStartTimeoutMs));
  if (!ready.ok())
    return Error{Code::kFailed, "the query worker did not start: " + ready.error().message, ""};
  if (ready->type != FrameType::kReady)
    return Error{Code::kFailed, "the query worker is of another build", ""};
  RETURN_IF_ERROR(DecodeResult(ready->payload));
  return worker;
}

Result<void> WorkerProcess::SendQuery(const QueryRequest& request) {
  std::vector<int> files;
  for (const table::Target& target : request.targets) {
    for (const auto& file : target.ring_fds) {
      if (files.size() == kMaxFilesInFrame) {
        RETURN_IF_ERROR(SendFrame(socket_.get(), FrameType::kFiles, "", files));
        files.clear();
      }
      files.push_back(file->get());
    }
  }
  QueryMessage message{request.sql,
                       request.format,
                       request.limits,
                       request.provider != nullptr,
                       request.targets,
                       request.history,
                       request.gatherer != nullptr,
                       request.recorded_ns};
  return SendFrame(socket_.get(), FrameType::kQuery, Encode(message), files);
}

Result<void> WorkerProcess::SendRows(const QueryRequest& request, std::string_view payload) {
  NeedMessage need;
  const bool is_fine =
      Decode(payload, need) && need.target < static_cast<std::int64_t>(request.targets.size());
  const table::Table* table = is_fine ? table::FindTable(need.table) : nullptr;
  if (table == nullptr || !request.provider)
    return Error{Code::kFailed, "the query worker asked for nonsense", ""};
  std::vector<std::size_t> columns;
  for (const std::uint64_t column : need.columns) {
    if (column >= table->columns.size())
      return Error{Code::kFailed, "the query worker asked for nonsense", ""};
    columns.push_back(column);
  }
  const table::Target* target =
      need.target < 0 ? nullptr : &request.targets[static_cast<std::size_t>(need.target)];
  Result<table::Rows> rows = request.provider(*table, target, columns);
  return SendFrame(
      socket_.get(), FrameType::kRows,
      EncodeResult(rows.ok() ? Result<std::string>(rows->Encode()) : Result<std::string>(rows.error())));
}

Result<void> WorkerProcess::SendGathered(const QueryRequest& request, std::string_view payload) {
  GatherRequest wanted;
  if (!Decode(payload, wanted) || !request.gatherer)
    return Error{Code::kFailed, "the query worker asked for nonsense", ""};
  const Result<std::vector<std::string>> gathered = request.gatherer(wanted);
  return SendFrame(socket_.get(), FrameType::kRows,
                   EncodeResult(gathered.ok() ? Result<std::string>(EncodeTexts(*gathered))
                                              : Result<std::string>(gathered.error())));
}

bool WorkerProcess::Send(const QueryRequest& request) {
  deadline_ = Deadline::AfterMs(request.limits.timeout_ms + kGraceMs);
  return SendQuery(request).ok();
}

Result<Frame> WorkerProcess::Next(const QueryRequest& request) {
  const int wake_fd = request.cancellation != nullptr ? request.cancellation->fd() : -1;
  ASSIGN_OR_RETURN(const bool goes_on, AwaitFrame(socket_.get(), wake_fd, deadline_));
  if (goes_on) return ReceiveFrame(socket_.get(), deadline_);
  const Deadline soon = Deadline::AfterMs(kUnwantedMs);
  const Result<bool> has_more = AwaitFrame(socket_.get(), -1, soon);
  if (has_more.ok()) {
    Result<Frame> frame = ReceiveFrame(socket_.get(), soon);
    if (frame.ok() && frame->type == FrameType::kEnd) return frame;
  }
  return Error{Code::kFailed, CancelledError().message, ""};
}

WorkerProcess::Fate WorkerProcess::Ask(const QueryRequest& request, const Output& output,
                                       QueryAnswer& answer) {
  if (!Send(request)) return Fate::kNeverBegan;
  return Follow(request, Next(request), output, answer);
}

WorkerProcess::Fate WorkerProcess::Follow(const QueryRequest& request, Result<Frame> frame,
                                          const Output& output, QueryAnswer& answer) {
  for (bool has_begun = false;; has_begun = true) {
    if (!frame.ok()) {
      const bool has_gone = frame.error().code == Code::kNotFound;
      if (!has_begun && has_gone && idle_since_ns != 0) return Fate::kNeverBegan;
      // There is nothing left to ask for: killing it is the fastest way to give its memory and time back.
      const bool unwanted = request.cancellation != nullptr && request.cancellation->cancelled();
      answer.error = unwanted ? CancelledError() : HowItEnded(request, frame.error());
      return Fate::kEnded;
    }
    if (const std::optional<Fate> fate = Handle(request, *frame, output, answer)) return *fate;
    frame = Next(request);
  }
}

std::optional<WorkerProcess::Fate> WorkerProcess::Handle(const QueryRequest& request, const Frame& frame,
                                                         const Output& output, QueryAnswer& answer) {
  Result<void> handled;
  EndMessage end;
  switch (frame.type) {
    case FrameType::kData:
      handled = TakeBytes(frame.payload, output, answer);
      break;
    case FrameType::kNeed:
      handled = SendRows(request, frame.payload);
      break;
    case FrameType::kGather:
      handled = SendGathered(request, frame.payload);
      break;
    case FrameType::kEnd:
      if (!Decode(frame.payload, end)) {
        handled = Damaged();
        break;
      }
      handled = TakeBytes(end.body, output, answer);
      if (!handled.ok()) break;
      answer.error = std::move(end.error);
      answer.rows = end.rows;
      answer.warnings = std::move(end.warnings);
      return end.leaves ? Fate::kEnded : Fate::kAnswered;
    default:
      handled = Damaged();
  }
  if (handled.ok()) return std::nullopt;
  answer.error = SqlError{handled.error().code, handled.error().message, handled.error().hint};
  return Fate::kEnded;
}

SqlError WorkerProcess::HowItEnded(const QueryRequest& request, const Error& error) {
  if (error.code == Code::kTimeout) return TimeLimitError(request.limits);
  const int status = End();
  // What a program does that gets no memory, or too much of the host's.
  if (WIFSIGNALED(status)) {
    SqlError ended = OutOfMemoryError(
        request.limits, "the query worker was ended by " + std::string(strsignal(WTERMSIG(status))));
    ended.code = Code::kFailed;  // most likely too much was asked for, but it may be a bug as well
    return ended;
  }
  return SqlError{Code::kFailed, "the query worker ended in the middle of the query: " + error.message,
                  "run the query again; probingd's log may say more"};
}

int WorkerProcess::End() {
  int status = 0;
  if (pid_ <= 0) return status;
  // A worker that has ended by itself is a zombie until it is waited for: the number is still its.
  if (waitpid(pid_, &status, WNOHANG) == 0) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
  }
  pid_ = -1;
  return status;
}

}  // namespace probing::query
