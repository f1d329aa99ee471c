#include "pyapi/gil.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <string_view>

#include "base/stat_line.h"
#include "pyapi/exit_guard.h"
#include "pyapi/gil_offsets.h"
#include "record/events.h"
#include "record/recorder.h"

namespace probing::pyapi {
namespace {

constexpr timespec kLongestYield{0, 2'000'000};

std::atomic<bool> pending{false};                 // a call is queued in the interpreter
std::atomic<int> waiting{0};                      // threads of ours that want the GIL
std::atomic<std::uint32_t> taken{0};              // counts how often one got it
std::atomic<int> inside{0};                       // threads of ours that have asked and are not through
std::atomic<bool> closing{false};                 // Python is on its way out
std::atomic<std::atomic<int>*> breaker{nullptr};  // see FindBreaker()

// A thread of ours has asked for the GIL, or runs Python code, and the end of the interpreter would not wait
// for it yet (exit_guard.h).
bool IsUnguarded() { return inside.load() != 0 && !ExitIsGuarded(); }

// The guard takes some 0.2 ms, and no lock that the main thread may have.
void AwaitExitGuard() {
  constexpr timespec kPause{0, 100'000};
  constexpr int kMostPauses = 5000;  // half a second or more
  for (int i = 0; i < kMostPauses && IsUnguarded(); ++i) nanosleep(&kPause, nullptr);
}

// Runs on the main thread, with the GIL; at the latest when the interpreter begins to end. No allocation, no
// lock.
int YieldGil(void* argument) {
  if (waiting.load() != 0 || IsUnguarded()) {  // else a thread of ours was faster
    const auto* api = static_cast<const PythonApi*>(argument);
    const std::uint32_t seen = taken.load();
    PyThreadState* state = api->PyEval_SaveThread();
    // Releasing alone is not enough: this thread would have it back before the other one wakes up.
    if (waiting.load() != 0) {
      syscall(SYS_futex, &taken, FUTEX_WAIT_PRIVATE, seen, &kLongestYield, nullptr, 0);
    }
    AwaitExitGuard();
    api->PyEval_RestoreThread(state);
  }
  pending.store(false);  // last, and with the GIL: see PendingCallOutstanding()
  return 0;
}

// From the moment 3.8 begins to end, Py_AddPendingCall refuses and prints so into the job, before anything
// of ours is told (atexit runs later). What it looks at is not to be had by a function.
bool QueueIsClosed(const PythonApi& api) {
  const auto offsets = FindGilOffsets(api.VersionNumber());
  if (!offsets || offsets->queue_closed == kNoOffset || api._PyRuntime == nullptr) return false;
  return *reinterpret_cast<const volatile int*>(api._PyRuntime + offsets->queue_closed) == 1;
}

// Whether the main thread is on a CPU, or wants to be. One that sleeps comes to no pending call, and one that
// is queued cannot be taken back: our code would have to stay mapped for as long as it sleeps.
bool MainThreadRuns() {
  bool runs = true;  // who knows
  // No child of the job's may be born with our descriptor.
  record::Recorder::WithoutForks(
      [](void* answer) {
        std::array<char, 64> path;
        std::snprintf(path.data(), path.size(), "/proc/self/task/%d/stat", static_cast<int>(getpid()));
        const int fd = open(path.data(), O_RDONLY | O_CLOEXEC);
        if (fd < 0) return;
        std::array<char, 128> text;
        const ssize_t size = read(fd, text.data(), text.size());
        close(fd);
        const StatLine line({text.data(), size > 0 ? static_cast<std::size_t>(size) : 0});
        if (line.state() != '?') *static_cast<bool*>(answer) = line.state() == 'R';
      },
      &runs);
  return runs;
}

void Queue(const PythonApi& api, int (*function)(void*)) {
  if (QueueIsClosed(api)) return;
  if (!pending.exchange(true) && api.Py_AddPendingCall(function, const_cast<PythonApi*>(&api)) != 0) {
    pending.store(false);  // the queue is full; the switch interval has to do
    return;
  }
  // From 3.9 to 3.12 a call queued by another thread is noticed only when something else makes
  // the main thread look: this.
  if (std::atomic<int>* flag = breaker.load()) flag->store(1);
}

// Finds the flag that makes the interpreter look whether there is something to do besides running
// bytecode, where the table of its version says (gil_offsets.h). Once; with the GIL. An interpreter that is
// laid out otherwise is not written to: code waits for the GIL there by the switch interval alone.
void FindBreaker(const PythonApi& api) {
  static std::atomic<bool> looked{false};
  const auto offsets = FindGilOffsets(api.VersionNumber());
  if (!offsets || offsets->breaker == kNoOffset || looked.exchange(true)) return;
  const bool can_tell =
      api.PyInterpreterState_Main != nullptr && api.PyInterpreterState_ThreadHead != nullptr;
  char* interpreter = can_tell ? static_cast<char*>(api.PyInterpreterState_Main()) : nullptr;
  constexpr int kMostTries = 3;  // a thread may begin meanwhile, which needs no GIL
  for (int i = 0; i < kMostTries && interpreter != nullptr; ++i) {
    if (!Fits(*offsets, interpreter, api.PyInterpreterState_ThreadHead(interpreter),
              api.PyImport_GetModuleDict()))
      continue;
    breaker.store(reinterpret_cast<std::atomic<int>*>(interpreter + offsets->breaker));
    return;
  }
  record::WriteEvent(
      "probing.gil",
      "this build of Python is not laid out like others of its version: taking the GIL may need a switch "
      "interval (5 ms) longer");
}

// Py_IsInitialized() of 3.6 says yes from the first moment of a start on. The main module is made when there
// is an import system: code of ours that imports earlier changes sys.modules while that is gone through, and
// the program does not start. With the GIL, or without there being one.
bool HasMainModule(const PythonApi& api) {
  PyObject* modules = api.PyImport_GetModuleDict();
  return modules != nullptr && api.PyDict_GetItemString(modules, "__main__") != nullptr;
}

// Runs on the main thread of a Python 3.6 that never had a second thread.
int CreateGil(void* argument) {
  const auto* api = static_cast<const PythonApi*>(argument);
  if (HasMainModule(*api)) api->PyEval_InitThreads();
  pending.store(false);
  return 0;
}

// Until 3.6 there is no GIL before the first thread, and PyGILState_Ensure would create it on our
// thread, while the main thread runs without it. So the main thread has to create it. False when it
// will not.
bool EnsureThereIsAGil(const PythonApi& api) {
  constexpr int kFirstWithGilFromTheStart = 307;
  constexpr timespec kPause{0, 1'000'000};
  if (api.VersionNumber() >= kFirstWithGilFromTheStart) return true;
  while (api.PyEval_ThreadsInitialized() == 0) {
    if (closing.load() || !api.Usable()) return false;
    Queue(api, &CreateGil);
    nanosleep(&kPause, nullptr);
  }
  return true;
}

}  // namespace

Gil::Gil(const PythonApi& api, Manner manner) : api_(api) {
  inside.fetch_add(1);
  if (!EnsureThereIsAGil(api) || closing.load() || !api.Usable()) return;
  waiting.fetch_add(1);
  if (manner == Manner::kSoon && MainThreadRuns()) Queue(api, &YieldGil);
  state_ = api.PyGILState_Ensure();
  taken_ = true;
  if (api.HasGil()) GuardExit(api);  // without one a function of ours would keep the library for good
  FindBreaker(api);
  waiting.fetch_sub(1);
  taken.fetch_add(1);
  syscall(SYS_futex, &taken, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

Gil::~Gil() {
  if (taken_) api_.PyGILState_Release(state_);
  inside.fetch_sub(1);
}

void NoMoreGil(const PythonApi& api) {
  constexpr int kMostPauses = 500;
  constexpr timespec kPause{0, 1'000'000};
  closing.store(true);
  if (inside.load() == 0) return;
  PyThreadState* state = api.PyEval_SaveThread();
  for (int i = 0; i < kMostPauses && inside.load() != 0; ++i) nanosleep(&kPause, nullptr);
  api.PyEval_RestoreThread(state);
}

void ForgetGilInForkedChild() {
  inside.store(0);
  waiting.store(0);
}

bool PendingCallOutstanding() { return pending.load(); }

}  // namespace probing::pyapi
