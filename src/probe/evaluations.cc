#include "probe/evaluations.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace probing::probe {
namespace {

using console::Work;
using wire::Message;

constexpr std::int64_t kInterruptGraceMs = 300;  // for KeyboardInterrupt to do its work
constexpr std::int64_t kSendEveryMs = 20;        // of what is printed: many lines travel together

std::string_view NoGilNote() {
  const pyapi::PythonApi* python = pyapi::FindPython();
  if (python != nullptr && python->VersionNumber() < 307) {
    return "the GIL did not come; nothing was evaluated. Python up to 3.6 has none before its first thread, "
           "and "
           "only its main thread can make it: when it runs Python code again";
  }
  return "the GIL did not come; nothing was evaluated";
}

}  // namespace

Evaluations::Evaluations(int wake_fd, Send send)
    : wake_fd_(wake_fd), send_(std::move(send)), evaluator_(wake_fd) {
  console::Output::WakeBy(wake_fd);
}

Evaluations::~Evaluations() {
  console::Output::WakeBy(-1);
  (void)console::Output::Take();
}

void Evaluations::Add(int client_fd, const Message& request, std::int64_t default_timeout_ms, Work work) {
  const std::int64_t timeout_ms =
      std::max<std::int64_t>(request.GetNumber("timeout_ms", default_timeout_ms), 1);
  queue_.push_back({.client_fd = client_fd,
                    .id = request.id(),
                    .deadline = Deadline::AfterMs(timeout_ms),
                    .work = std::move(work),
                    .session = std::string(request.Get("session")),
                    .gil_timeout_ms = request.GetNumber("gil_timeout_ms", 0),
                    .streams = request.Get("stream") == "1"});
  StartNext();
}

// Answers them, and they do not begin. A client that turns out to be gone changes the queue once more, so
// nothing is sent while we walk through it.
void Evaluations::TakeFromQueue(const std::function<bool(const Pending&)>& chosen, std::string_view outcome,
                                std::string_view note) {
  std::vector<Pending> taken;
  std::deque<Pending> left;
  for (Pending& waiting : queue_) {
    if (chosen(waiting)) {
      taken.push_back(std::move(waiting));
    } else {
      left.push_back(std::move(waiting));
    }
  }
  queue_ = std::move(left);
  for (const Pending& waiting : taken) {
    send_(waiting.client_fd, WithWhatRuns(Message(waiting.id).Set("outcome", outcome).Set("note", note)));
  }
}

void Evaluations::Interrupt(int client_fd, std::string_view session) {
  const auto ours = [&](const Pending& one) {
    return one.client_fd == client_fd || (!session.empty() && one.session == session);
  };
  TakeFromQueue(ours, "cancelled", "another evaluation was still running; nothing was evaluated");
  if (pending_.has_value() && ours(*pending_)) Stop("cancelled");
}

void Evaluations::Forget(int client_fd) {
  std::erase_if(queue_, [&](const Pending& waiting) { return waiting.client_fd == client_fd; });
  if (pending_.has_value() && pending_->client_fd == client_fd) {
    pending_->client_fd = -1;
    Stop("cancelled");
  }
}

// What an answer says about code that did not end.
Message Evaluations::WithWhatRuns(Message answer) const {
  const pid_t tid = evaluator_.running_tid();
  if (tid == 0) return answer;
  return answer.Set("running_tid", static_cast<std::int64_t>(tid)).Set("running_ms", evaluator_.running_ms());
}

console::Evaluator::Left Evaluations::Release(std::int64_t timeout_ms) {
  TakeFromQueue([](const Pending&) { return true; }, "cancelled", "the probe is leaving this process");
  Stop("cancelled");
  const console::Evaluator::Left left = evaluator_.Release(timeout_ms);
  if (evaluator_.running_tid() == 0) {  // its result was collected
    evaluating_ = false;
    child_output_.End();
    if (pending_.has_value()) Answer(Message(pending_->id).Set("outcome", "cancelled"));
  }
  return left;
}

// Gives an evaluation what it prints to. REQUIRES: !evaluating_.
void Evaluations::Prepare(Work& work) {
  if (work.kind != Work::Kind::kEvaluate) return;
  child_output_.Begin(static_cast<std::size_t>(work.max_output_bytes));
  work.out_fd = child_output_.out_fd();
  work.err_fd = child_output_.err_fd();
  (void)console::Output::Take();  // of one that nobody waited for any more
  kept_ = {};
}

void Evaluations::StartNext() {
  while (!queue_.empty() && !pending_.has_value()) {
    if (evaluating_) return;  // it was answered before it ended
    Work& work = queue_.front().work;
    Prepare(work);
    // Our own work, which nobody waits for, makes room while it has not begun.
    const bool taken_over = evaluator_.busy();
    if (taken_over && !evaluator_.TakeOver(work)) return;
    pending_ = std::move(queue_.front());
    queue_.pop_front();
    const Result<void> started = taken_over ? Result<void>() : evaluator_.Start(pending_->work);
    if (started.ok()) {
      evaluating_ = pending_->work.kind == Work::Kind::kEvaluate;
      begun_ += evaluating_ ? 1 : 0;
      if (pending_->gil_timeout_ms > 0) pending_->gil_deadline = Deadline::AfterMs(pending_->gil_timeout_ms);
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
    if (sends_soon_) next_ms = std::min(next_ms, next_send_.left_ms());
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
  evaluating_ = false;  // its thread waits on, for whoever comes next
  child_output_.End();
  Answer(Message(pending_->id).Set("outcome", reason).Set("note", NoGilNote()).Set("gil", "unavailable"));
  StartNext();
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
  TakeFromQueue([](const Pending& waiting) { return waiting.deadline.passed(); }, "timeout",
                "an earlier evaluation was still running; nothing was evaluated");
  if (sends_soon_) SendPrinted();
  if (pending_.has_value() && pending_->gil_deadline.has_value() && pending_->gil_deadline->passed()) {
    pending_->gil_deadline.reset();
    if (GiveUpWaiting("timeout")) return;
  }
  if (!pending_.has_value() || !pending_->deadline.passed()) return;
  if (pending_->reason.empty()) return Stop("timeout");
  Message answer(pending_->id);
  answer.Set("outcome", pending_->reason);
  answer.Set(
      "note",
      "the code is in a call that does not return: it still runs, and ends when it comes back to Python");
  Answer(WithWhatRuns(std::move(answer)));
}

void Evaluations::OnChildOutput() {
  child_output_.DropOld();
  kept_.Add(child_output_.Read());
  SendPrinted();
}

// To a client that wants it at once, and otherwise nothing happens.
void Evaluations::SendPrinted() {
  if (!pending_.has_value() || !pending_->streams || pending_->client_fd < 0) return;
  sends_soon_ = !next_send_.passed();
  if (sends_soon_) return;
  const console::Printed printed = TakePrinted();
  if (printed.empty()) return;
  next_send_ = Deadline::AfterMs(kSendEveryMs);
  send_(pending_->client_fd,
        Message(pending_->id).Set("partial", "1").Set("stdout", printed.out).Set("stderr", printed.err));
}

console::Printed Evaluations::TakePrinted() {
  console::Printed printed = console::Output::Take();
  printed.Add(std::exchange(kept_, {}));
  return printed;
}

void Evaluations::OnWake() {
  std::uint64_t count = 0;
  (void)!read(wake_fd_, &count, sizeof(count));
  std::optional<console::Evaluation> done = evaluator_.Collect();
  if (!done.has_value()) return SendPrinted();
  if (evaluating_) {
    evaluating_ = false;
    kept_.Add(child_output_.Read());
    child_output_.End();
  }
  // Our own, or one that was answered before it ended.
  const bool is_own = done->kind == Work::Kind::kHooks || done->kind == Work::Kind::kMemory;
  if (is_own || !pending_.has_value()) return StartNext();
  if (done->kind == Work::Kind::kLive) {
    Answer(done->rows.ok() ? Message(pending_->id).Set("rows", *done->rows)
                           : Message::Failure(pending_->id, done->rows.error()));
  } else {
    Answer(Conclusion(*done));
  }
  StartNext();
}

Message Evaluations::Conclusion(const console::Evaluation& done) {
  const console::Printed rest = TakePrinted();
  Message answer(pending_->id);
  const std::string_view reason = pending_->reason.empty() ? "cancelled" : pending_->reason;
  answer.Set("outcome", done.raised ? (done.interrupted ? reason : "raised") : "ok");
  answer.Set("stdout", done.out + rest.out).Set("stderr", done.err + rest.err);
  if (done.value.has_value()) answer.Set("value", *done.value);
  if (done.traceback.has_value()) answer.Set("traceback", *done.traceback);
  if (!done.exception.empty()) answer.Set("exception", done.exception);
  if (done.cut || child_output_.cut()) answer.Set("note", "output was cut at probing.eval.max_output");
  answer.Set("gil_wait_us", done.gil_wait_us).Set("duration_us", done.duration_us);
  return answer;
}

}  // namespace probing::probe
