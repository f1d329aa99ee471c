// Runs Python source in the target for a client: one evaluation at a time, on a thread that
// exists only meanwhile.
//
// Start, Interrupt, Abandon and Collect belong to one thread, the probe's, which never waits
// here: the end of an evaluation makes `wake_fd` readable.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "base/result.h"
#include "pyapi/python_api.h"

namespace probing::pyapi {

struct Evaluation {
  bool raised = false;
  bool interrupted = false;  // ended because of Interrupt()
  bool cut = false;          // some output was beyond the limit
  std::string out, err;
  std::optional<std::string> value, traceback;
  std::int64_t gil_wait_us = 0;
  std::int64_t duration_us = 0;
};

class Evaluator {
 public:
  // Lifetime: `wake_fd` is an eventfd that outlives the evaluator.
  explicit Evaluator(int wake_fd) : wake_fd_(wake_fd) {}

  Result<void> Start(std::string source, std::int64_t max_output_bytes);

  bool busy() const { return state_.load() != State::kIdle; }

  // Makes a running evaluation end with KeyboardInterrupt as soon as it executes Python code
  // again. Without effect when there is none.
  void Interrupt();

  // Gives up an evaluation that still waits for the GIL: it will not run when the GIL comes.
  // False when it runs already.
  bool Abandon();

  // The result, once. nullopt while it is not finished; an abandoned one gives no result.
  std::optional<Evaluation> Collect();

  // Drops what is cached in the interpreter, if its lock can be had within `timeout_ms`.
  // False: something of ours is still in there, and our code must stay mapped.
  bool Release(std::int64_t timeout_ms);

 private:
  enum class State : std::uint8_t { kIdle, kWaiting, kRunning, kAbandoned, kDone };

  static void* RunThread(void* self);
  static void* InterruptThread(void* self);
  static void* ReleaseThread(void* self);
  void Run();
  bool PrepareHelpers();
  void CallEvaluate();
  void Wake() const;

  const int wake_fd_;
  const PythonApi* api_ = nullptr;
  std::atomic<State> state_{State::kIdle};
  pthread_t thread_{};
  std::string source_;
  std::int64_t max_output_bytes_ = 0;
  std::int64_t started_ns_ = 0;
  Evaluation result_;

  // Guards the time in which the evaluating thread may be interrupted. The GIL would do, where
  // there is one.
  std::mutex interruptible_mutex_;
  bool interruptible_ = false;
  unsigned long interruptible_thread_ = 0;
  std::optional<pthread_t> interrupter_;
  std::atomic<bool> interrupter_done_{false};
  std::atomic<bool> released_{false};

  PyObject* helpers_ = nullptr;  // the namespace of evaluate.py
};

}  // namespace probing::pyapi
