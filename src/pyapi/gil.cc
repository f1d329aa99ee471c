#include "pyapi/gil.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace probing::pyapi {
namespace {

constexpr int kFirstWithInterpreterArgument = 309;  // of _PyEval_SignalReceived
constexpr timespec kLongestYield{0, 2'000'000};

std::atomic<bool> pending{false};     // a call is queued in the interpreter
std::atomic<int> waiting{0};          // threads of ours that want the GIL
std::atomic<std::uint32_t> taken{0};  // counts how often one got it

// Runs on the main thread, with the GIL. No allocation, no lock.
int YieldGil(void* argument) {
  if (waiting.load() != 0) {  // else somebody was faster
    const auto* api = static_cast<const PythonApi*>(argument);
    const std::uint32_t seen = taken.load();
    PyThreadState* state = api->PyEval_SaveThread();
    // Releasing alone is not enough: this thread would have it back before the other one wakes up.
    if (waiting.load() != 0) {
      syscall(SYS_futex, &taken, FUTEX_WAIT_PRIVATE, seen, &kLongestYield, nullptr, 0);
    }
    api->PyEval_RestoreThread(state);
  }
  pending.store(false);  // last, and with the GIL: see PendingCallOutstanding()
  return 0;
}

void Queue(const PythonApi& api, int (*function)(void*)) {
  if (!pending.exchange(true) && api.Py_AddPendingCall(function, const_cast<PythonApi*>(&api)) != 0) {
    pending.store(false);  // the queue is full; the switch interval has to do
    return;
  }
  // From 3.9 to 3.12 a call queued by another thread is noticed only when something else makes
  // the main thread look, and any thread that takes the GIL makes it look away again. This says
  // "a signal may have arrived", which the main thread finds to be untrue.
  if (api._PyEval_SignalReceived == nullptr || api.PyInterpreterState_Main == nullptr) return;
  if (api.VersionNumber() >= kFirstWithInterpreterArgument) {
    api._PyEval_SignalReceived(api.PyInterpreterState_Main());
  }
}

// Runs on the main thread of a Python 3.6 that never had a second thread.
int CreateGil(void* argument) {
  static_cast<const PythonApi*>(argument)->PyEval_InitThreads();
  pending.store(false);
  return 0;
}

// Until 3.6 there is no GIL before the first thread, and PyGILState_Ensure would create it on our
// thread, while the main thread runs without it. So the main thread has to create it.
void EnsureThereIsAGil(const PythonApi& api) {
  constexpr int kFirstWithGilFromTheStart = 307;
  constexpr timespec kPause{0, 1'000'000};
  if (api.VersionNumber() >= kFirstWithGilFromTheStart) return;
  while (api.PyEval_ThreadsInitialized() == 0) {
    Queue(api, &CreateGil);
    nanosleep(&kPause, nullptr);
  }
}

}  // namespace

Gil::Gil(const PythonApi& api, Manner manner) : api_(api) {
  EnsureThereIsAGil(api);
  waiting.fetch_add(1);
  if (manner == Manner::kSoon) Queue(api, &YieldGil);
  state_ = api.PyGILState_Ensure();
  waiting.fetch_sub(1);
  taken.fetch_add(1);
  syscall(SYS_futex, &taken, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

Gil::~Gil() { api_.PyGILState_Release(state_); }

bool PendingCallOutstanding() { return pending.load(); }

}  // namespace probing::pyapi
