#include "probe/evaluations.h"

#include <unistd.h>

#include <algorithm>
#include <limits>

namespace probing::probe {
namespace {

using pyapi::Work;
using wire::Message;

constexpr std::int64_t kInterruptGraceMs = 300;  // for KeyboardInterrupt to do its work

std::string_view NoGilNote() {
  const pyapi::PythonApi* python = pyapi::FindPython();
  if (python != nullptr && python->VersionNumber() < 307) {
    return "the GIL did not come; nothing was evaluated. Python 3.6 has none before its first thread, and "
           "only its main thread can make it: when it runs Python code again";
  }
  return "the GIL did not come; nothing was evaluated";
}

}  // namespace

void Evaluations::Add(int client_fd, const Message& request, std::int64_t default_timeout_ms, Work work) {
  const std::int64_t timeout_ms =
      std::max<std::int64_t>(request.GetNumber("timeout_ms", default_timeout_ms), 1);
  queue_.push_back({client_fd, request.id(), Deadline::AfterMs(timeout_ms), std::move(work), "",
                    std::string(request.Get("session")), request.GetNumber("gil_timeout_ms", 0)});
  StartNext();
}

void Evaluations::Interrupt(int client_fd, std::string_view session) {
  const auto ours = [&](const Pending& one) {
    return one.client_fd == client_fd || (!session.empty() && one.session == session);
  };
  std::erase_if(queue_, [&](const Pending& waiting) {
    if (!ours(waiting)) return false;
    send_(waiting.client_fd, Message(waiting.id)
                                 .Set("outcome", "cancelled")
                                 .Set("note", "another evaluation was still running; nothing was evaluated"));
    return true;
  });
  if (pending_.has_value() && ours(*pending_)) Stop("cancelled");
}

void Evaluations::Forget(int client_fd) {
  std::erase_if(queue_, [&](const Pending& waiting) { return waiting.client_fd == client_fd; });
  if (pending_.has_value() && pending_->client_fd == client_fd) {
    pending_->client_fd = -1;
    Stop("cancelled");
  }
}

pyapi::Evaluator::Left Evaluations::Release(std::int64_t timeout_ms) {
  queue_.clear();
  Stop("cancelled");
  return evaluator_.Release(timeout_ms);
}

void Evaluations::StartNext() {
  while (!queue_.empty() && !pending_.has_value()) {
    // Our own work, which nobody waits for, makes room while it has not begun.
    if (evaluator_.busy() && !evaluator_.TakeOver(queue_.front().work)) return;
    const bool taken_over = evaluator_.busy();
    pending_ = std::move(queue_.front());
    queue_.pop_front();
    auto started = taken_over ? Result<void>() : evaluator_.Start(std::move(pending_->work));
    if (started.ok()) {
      if (pending_->gil_timeout_ms > 0) pending_->gil_deadline = Deadline::AfterMs(pending_->gil_timeout_ms);
      begun_ += pending_->work.kind == Work::Kind::kEvaluate ? 1 : 0;
      return;
    }
    Answer(Message::Failure(pending_->id, started.error()));
  }
}

int Evaluations::NextDeadlineMs() const {
  int next_ms = std::numeric_limits<int>::max();
  if (pending_.has_value()) {
    next_ms = pending_->deadline.left_ms();
    if (pending_->gil_deadline.has_value()) next_ms = std::min(next_ms, pending_->gil_deadline->left_ms());
  }
  for (const Pending& waiting : queue_) next_ms = std::min(next_ms, waiting.deadline.left_ms());
  return next_ms;
}

void Evaluations::Answer(Message answer) {
  if (pending_->client_fd >= 0) send_(pending_->client_fd, answer);
  pending_.reset();
}

// Nothing happens when the evaluation has begun: false.
bool Evaluations::GiveUpWaiting(std::string_view reason) {
  if (!evaluator_.Abandon()) return false;
  Answer(Message(pending_->id).Set("outcome", reason).Set("note", NoGilNote()).Set("gil", "unavailable"));
  return true;
}

void Evaluations::Stop(std::string_view reason) {
  if (!pending_.has_value() || !pending_->reason.empty()) return;
  pending_->reason = reason;
  if (GiveUpWaiting(reason)) return;
  evaluator_.Interrupt();
  pending_->deadline = Deadline::AfterMs(kInterruptGraceMs);
}

void Evaluations::OnDeadlines() {
  std::erase_if(queue_, [&](const Pending& waiting) {
    if (!waiting.deadline.passed()) return false;
    Message answer(waiting.id);
    answer.Set("outcome", "timeout")
        .Set("note", "an earlier evaluation was still running; nothing was evaluated");
    send_(waiting.client_fd, answer);
    return true;
  });
  if (pending_.has_value() && pending_->gil_deadline.has_value() && pending_->gil_deadline->passed()) {
    pending_->gil_deadline.reset();
    if (GiveUpWaiting("timeout")) return;
  }
  if (!pending_.has_value() || !pending_->deadline.passed()) return;
  if (pending_->reason.empty()) return Stop("timeout");
  Message answer(pending_->id);
  answer.Set("outcome", pending_->reason);
  answer.Set("note", "the code does not react; it is stopped when it comes back to Python code");
  Answer(std::move(answer));
}

void Evaluations::OnWake() {
  std::uint64_t count = 0;
  (void)!read(wake_fd_, &count, sizeof(count));
  std::optional<pyapi::Evaluation> done = evaluator_.Collect();
  if (!done.has_value()) return;
  // Our own, or one that was answered before it ended.
  const bool is_own = done->kind == Work::Kind::kHooks || done->kind == Work::Kind::kMemory;
  if (is_own || !pending_.has_value()) return StartNext();
  if (done->kind == Work::Kind::kLive) {
    Answer(done->rows.ok() ? Message(pending_->id).Set("rows", *done->rows)
                           : Message::Failure(pending_->id, done->rows.error()));
    return StartNext();
  }
  Message answer(pending_->id);
  const std::string_view reason = pending_->reason.empty() ? "cancelled" : pending_->reason;
  answer.Set("outcome", done->raised ? (done->interrupted ? reason : "raised") : "ok");
  answer.Set("stdout", done->out).Set("stderr", done->err);
  if (done->value.has_value()) answer.Set("value", *done->value);
  if (done->traceback.has_value()) answer.Set("traceback", *done->traceback);
  if (!done->exception.empty()) answer.Set("exception", done->exception);
  if (done->cut) answer.Set("note", "output was cut at probing.eval.max_output");
  answer.Set("gil_wait_us", done->gil_wait_us).Set("duration_us", done->duration_us);
  Answer(std::move(answer));
  StartNext();
}

}  // namespace probing::probe
