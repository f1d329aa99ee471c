// Does work in the interpreter: one piece at a time, on a thread that exists only meanwhile. Mostly
// that is Python source which a client wants evaluated.
//
// Start, TakeOver, Interrupt, Abandon and Collect belong to one thread, the probe's, which never
// waits here: the end of the work makes `wake_fd` readable.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "pyapi/embedded.h"
#include "pyapi/python_api.h"
#include "pyapi/ref.h"

namespace probing::console {

using pyapi::PyObject;
using pyapi::PythonApi;

struct Work {
  enum class Kind : std::uint8_t {
    kEvaluate,  // run `text`
    kLive,      // make the table `text`, its columns `columns`
    kHooks,     // have the hooks `text` in place, and let them look at new imports
    kMemory,    // add a row to python.memory
  };
  Kind kind = Kind::kEvaluate;
  std::string text;
  std::vector<std::string> columns;
  std::int64_t timeout_ms = 0;  // of kLive: what is not done by then is left out
  std::int64_t max_output_bytes = 0;
  std::string options;  // of kEvaluate: "key\0value\0…", as parse_options() of evaluate.py reads it
  int out_fd = -1;      // of kEvaluate: what processes it starts get as stdout and stderr; −1: the job's
  int err_fd = -1;
};

struct Evaluation {
  Work::Kind kind = Work::Kind::kEvaluate;
  Result<std::string> rows = std::string();  // of kLive, as table::Rows encodes them
  bool raised = false;
  std::string exception;     // the name of its class when something was raised
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
  explicit Evaluator(int wake_fd);

  Result<void> Start(Work work);

  // Has the thread that waits for the GIL do this instead of what it was started for, also when that was
  // given up. False when none waits, or when it runs already.
  bool TakeOver(Work work);

  bool busy() const { return state_.load() != State::kIdle || releasing(); }

  // Makes a running evaluation end as soon as it executes Python code again: with KeyboardInterrupt, and when
  // it goes on all the same, with exceptions that follow each other for as long as it runs. Without effect
  // when there is none.
  void Interrupt();

  // The thread of the work that runs now; 0 when none does.
  pid_t running_tid() const { return state_.load() == State::kRunning ? tid_.load() : 0; }
  std::int64_t running_ms() const;

  // Gives up an evaluation that still waits for the GIL: it will not run when the GIL comes.
  // False when it runs already.
  bool Abandon();

  // The result, once. nullopt while it is not finished; an abandoned one gives no result.
  std::optional<Evaluation> Collect();

  // Takes everything of ours out of the interpreter and ends the recording, if the interpreter's lock
  // can be had within `timeout_ms`. May be called again after kRunning and kWaiting, with the time that is
  // left.
  enum class Left : std::uint8_t {
    kNothing,
    kRunning,   // an evaluation does not end: nothing was taken out
    kWaiting,   // the GIL did not come: a thread of ours waits for it; `wake_fd` tells when it was there
    kFunction,  // Python code has a function of ours, which does nothing any more, or is in a call of one:
                // our code must stay until the last of them is gone (CallInside::WhenAllAreGone(),
                // ReleaseLast())
  };
  Left Release(std::int64_t timeout_ms);
  bool releasing() const { return releaser_.has_value(); }

 private:
  enum class State : std::uint8_t { kIdle, kWaiting, kChanging, kRunning, kAbandoned, kDone };

  static void* RunThread(void* self);
  static void* InterruptThread(void* self);
  static void* ReleaseThread(void* self);
  void Run();
  void LoadHooks();
  bool BeginRunning();
  void DoWork();
  bool PrepareHelpers(const char* module);
  bool AddFunctions();
  void CallEvaluate();
  void MakeLiveTable();
  static PyObject* EndAgain(PyObject* self, PyObject* arguments);
  PyObject* EndlessException();
  void DropEndlessException();
  void NoteOwnFailure();
  pyapi::Ref CallInterruptibly(const char* module, const char* function, const pyapi::Ref& first,
                               const pyapi::Ref& second, const pyapi::Ref& third);
  void ForgetHelpers();
  void CloseRecorder();
  void Wake() const;

  const int wake_fd_;
  const PythonApi* api_ = nullptr;
  std::atomic<State> state_{State::kIdle};
  std::atomic<bool> wants_hooks_{false};  // as long as nobody took the thread over
  std::atomic<pid_t> tid_{0};
  pthread_t thread_{};
  Work work_;
  std::int64_t started_ns_ = 0;
  Evaluation result_;

  // Guards the time in which the evaluating thread may be interrupted. The GIL would do, where
  // there is one.
  std::mutex interruptible_mutex_;
  bool interruptible_ = false;
  bool stop_before_it_begins_ = false;
  unsigned long interruptible_thread_ = 0;
  std::optional<pthread_t> interrupter_;
  std::atomic<bool> interrupter_done_{false};
  PyObject* endless_ = nullptr;  // a class while an evaluation is being ended that does not want to; borrowed
  std::string own_failure_;      // why our own code gave no answer
  std::optional<pthread_t> releaser_;
  std::atomic<bool> released_{false};
  bool closing_ = false;  // told to leave: nothing new begins
  bool function_left_ = false;

  pyapi::EmbeddedModules helpers_;  // evaluate.py, live.py and all that they need
  bool has_functions_ = false;      // and what they need of ours
};

// What Release() had to leave, once the last function and the last call are gone. False when the end of the
// interpreter came first: then everything stays.
bool ReleaseLast(const PythonApi& api);

}  // namespace probing::console
