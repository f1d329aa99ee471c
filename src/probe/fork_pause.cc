#include "probe/fork_pause.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/clock.h"
#include "pyapi/python_api.h"

namespace probing::probe {
namespace {

constexpr std::int64_t kLongestMs = 5;
constexpr std::int64_t kLookUs = 20;
constexpr std::int64_t kLongestHooksMs = 20;

// kNone → kRequested (by a thread that forks) → kPaused or kNone (by the probe's thread) → kNone (when it is
// back). Only the thread that forks takes a request back.
enum class State : std::uint8_t { kNone, kRequested, kPaused };
std::atomic<State> state{State::kNone};
std::atomic<int> wake{-1};
std::atomic<pid_t> probe_tid{0};
std::atomic<Control*> paused_control{nullptr};
std::atomic<bool> resume_queued{false};
// Of the thread that forks, with the GIL: the frame that called os.fork(), and until when it is waited for.
pyapi::PyObject* forking_frame = nullptr;
std::int64_t hooks_end_ns = 0;

bool Change(State from, State to) { return state.compare_exchange_strong(from, to); }

// How many threads this process has: as many folders as are in its folder of threads.
bool HasTwoThreads() {
  struct stat folder{};
  return stat("/proc/self/task", &folder) == 0 && folder.st_nlink == 2 + 2;  // "." and ".." count, too
}

// Whether the interpreter will count threads after the fork that this thread is about to make.
bool PythonWillCount() {
  constexpr int kFirst = 312;
  const pyapi::PythonApi* api = pyapi::FindPython();
  return api != nullptr && api->PyGILState_Check != nullptr && api->VersionNumber() >= kFirst &&
         api->Usable() && api->PyGILState_Check() == 1;
}

// 3.13 counts after the functions of os.register_at_fork(), in which pending calls run, too.
bool IsStillInsideFork(const pyapi::PythonApi& api) {
  return forking_frame != nullptr && MonotonicNs() < hooks_end_ns && api.PyEval_GetFrame() != forking_frame;
}

// Runs on the main thread, with the GIL, before the first bytecode after the fork.
int Resume(void*) {
  const pyapi::PythonApi* api = pyapi::FindPython();
  if (IsStillInsideFork(*api) && api->Py_AddPendingCall(&Resume, nullptr) == 0) return 0;
  resume_queued.store(false);
  if (state.load() == State::kPaused && StartThreadAgain(paused_control.load())) state.store(State::kNone);
  return 0;  // without a thread the next fork tries again
}

}  // namespace

bool IsGone(pid_t tid) { return syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH; }

void OfferPause(int wake_fd) {
  probe_tid.store(static_cast<pid_t>(syscall(SYS_gettid)));
  wake.store(wake_fd);
}

bool PauseIfAsked(Control* control, Activity activity) {
  if (state.load() != State::kRequested) return false;
  if (activity == Activity::kBusy) {
    Change(State::kRequested, State::kNone);
    return false;
  }
  paused_control.store(control);
  return Change(State::kRequested, State::kPaused);
}

void PauseForFork() {
  const int wake_fd = wake.load();
  // With more threads than these two Python warns about the job's own.
  if (wake_fd < 0 || !PythonWillCount() || !HasTwoThreads()) return;
  if (!Change(State::kNone, State::kRequested)) return;
  const int error = errno;
  const pyapi::PythonApi* api = pyapi::FindPython();
  forking_frame = api->PyEval_GetFrame == nullptr ? nullptr : api->PyEval_GetFrame();
  const std::uint64_t one = 1;
  (void)!write(wake_fd, &one, sizeof(one));
  const Deadline deadline = Deadline::AfterMs(kLongestMs);
  while (state.load() == State::kRequested && !deadline.passed()) SleepUs(kLookUs);
  if (!Change(State::kRequested, State::kNone) && state.load() == State::kPaused) {
    while (!IsGone(probe_tid.load()) && !deadline.passed()) SleepUs(kLookUs);
  }
  errno = error;
}

void ResumeAfterFork() {
  if (state.load() != State::kPaused || resume_queued.exchange(true)) return;
  hooks_end_ns = MonotonicNs() + kLongestHooksMs * 1'000'000;
  if (pyapi::FindPython()->Py_AddPendingCall(&Resume, nullptr) != 0) {
    hooks_end_ns = 0;
    (void)Resume(nullptr);
  }
}

void ForgetPauseInForkedChild() {
  state.store(State::kNone);
  wake.store(-1);
  resume_queued.store(false);
}

}  // namespace probing::probe
