// The evaluations clients wait for: one under way, the others behind it, each with a deadline.
//
// Belongs to the probe's thread, like the Evaluator in it, and never waits: the end of the work and what it
// prints make `wake_fd` readable. A request with `stream` is answered by several messages with its id: each
// but the last has the field `partial` and what was printed since the one before.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "console/evaluator.h"
#include "console/output.h"
#include "probe/child_output.h"
#include "wire/message.h"

namespace probing::probe {

class Evaluations {
 public:
  // How an answer reaches the client that is connected as this descriptor.
  using Send = std::function<void(int client_fd, const wire::Message& answer)>;
  // Lifetime: `wake_fd` is an eventfd that outlives this.
  Evaluations(int wake_fd, Send send);
  ~Evaluations();
  Evaluations(const Evaluations&) = delete;
  Evaluations& operator=(const Evaluations&) = delete;

  // Answers the request when the work is done, or when the request's time is up.
  void Add(int client_fd, const wire::Message& request, std::int64_t default_timeout_ms, console::Work work);

  // A client's own evaluations: of its connection, or of the session that is named. What has not begun is
  // answered at once and does not begin.
  void Interrupt(int client_fd, std::string_view session);

  // Nobody waits there any more.
  void Forget(int client_fd);

  // Work of our own, which nobody waits for; it makes room for what somebody does wait for.
  // REQUIRES: !busy().
  void StartOwn(console::Work work) { (void)evaluator_.Start(std::move(work)); }

  bool busy() const { return evaluator_.busy(); }
  std::int64_t begun() const { return begun_; }

  // To be called when `wake_fd` is readable, and after NextDeadlineMs().
  void OnWake();
  void OnDeadlines();
  int NextDeadlineMs() const;

  // Where processes that evaluated code has started write to: to be watched for input.
  std::vector<int> ChildOutputs() const { return child_output_.fds(); }
  void OnChildOutput();

  // Ends everything, and takes what is ours out of the interpreter.
  console::Evaluator::Left Release(std::int64_t timeout_ms);

  // The answer, with the thread of an evaluation that still runs and for how long it has.
  wire::Message WithWhatRuns(wire::Message answer) const;

 private:
  struct Pending {
    int client_fd = -1;  // −1: nobody any more
    std::uint32_t id = 0;
    Deadline deadline = Deadline::AfterMs(0);
    console::Work work;
    std::string_view reason;                    // "timeout" or "cancelled" once it was told to stop
    std::string session;                        // whose evaluation it is; "" for a single one
    std::int64_t gil_timeout_ms = 0;            // how long it may wait for the GIL alone; 0: no limit
    bool streams = false;                       // what is printed is sent while it runs
    std::optional<Deadline> gil_deadline = {};  // that wait's end, once it is under way
  };

  void StartNext();
  void Prepare(console::Work& work);
  void SendPrinted();
  console::Printed TakePrinted();
  wire::Message Conclusion(const console::Evaluation& done);
  void TakeFromQueue(const std::function<bool(const Pending&)>& chosen, std::string_view outcome,
                     std::string_view note);
  void Answer(wire::Message answer);
  bool GiveUpWaiting(std::string_view reason);
  void Stop(std::string_view reason);

  const int wake_fd_;
  const Send send_;
  console::Evaluator evaluator_;
  std::optional<Pending> pending_;  // under way
  std::deque<Pending> queue_;       // behind it
  ChildOutput child_output_;
  console::Printed kept_;  // of processes, not sent yet
  Deadline next_send_ = Deadline::AfterMs(0);
  bool sends_soon_ = false;  // something waits for next_send_
  bool evaluating_ = false;  // also one that was answered before it ended
  std::int64_t begun_ = 0;
};

}  // namespace probing::probe
