#include "probe/lifecycle.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "arch/routines.h"
#include "base/clock.h"
#include "base/quiescence.h"
#include "base/thread.h"
#include "console/evaluator.h"
#include "hooks/hooks.h"
#include "hooks/native.h"
#include "probe/control.h"
#include "probe/first_client.h"
#include "probe/fork_pause.h"
#include "probe/recording.h"
#include "probing/probing.h"
#include "pyapi/functions.h"
#include "record/recorder.h"

// What this library registers with the C library carries this handle, so that __cxa_finalize takes all of it
// back: destructors and atfork handlers. The usual start-up files call that in dlclose; the release build has
// none, and the compat pthread_atfork of glibc registers without a handle. So both are done here.
extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;
extern "C" void __cxa_finalize(void* dso_handle);
extern "C" int __register_atfork(void (*prepare)(), void (*parent)(), void (*child)(), void* dso_handle);

extern "C" __attribute__((visibility("hidden"))) void* probing_control_main(void* argument);

namespace probing::probe {
namespace {

// All of this is plain data: it is used before C++ constructors have run and after exit began.
std::atomic<bool> active{false};
std::atomic<bool> nested{false};
std::atomic<bool> fork_handler_set{false};
std::int64_t started_ns = 0;
link_map* this_library = nullptr;  // as the loader knows it; in glibc also what dlopen returned
Origin origin = Origin::kImported;
std::array<std::atomic<int>, 64> fork_closed{};  // fd + 1; 0 is a free place
std::array<char, 128> socket_path{};
pthread_mutex_t fork_mutex = PTHREAD_MUTEX_INITIALIZER;
// Set once, under fork_mutex and so between two forks: from then on the fork handlers do nothing, because
// nothing is left that a child could get, and because their code is about to go.
std::atomic<bool> unloading{false};
std::atomic<int> in_fork_handlers{0};
std::atomic<pid_t> control_tid{0};

// A thread is inside of a fork handler as long as one of these exists.
class InForkHandler {
 public:
  InForkHandler() { in_fork_handlers.fetch_add(1); }
  ~InForkHandler() { in_fork_handlers.fetch_sub(1); }
  InForkHandler(const InForkHandler&) = delete;
  InForkHandler& operator=(const InForkHandler&) = delete;
};

// Asked once, while the loader is at work on us and its lock is ours: later it may be anybody's.
void FindOutOrigin() {
  Dl_info info{};
  void* map = nullptr;
  if (dladdr1(reinterpret_cast<void*>(&FindOutOrigin), &info, &map, RTLD_DL_LINKMAP) == 0) return;
  this_library = static_cast<link_map*>(map);
  const std::string_view name = this_library->l_name;
  const char* preloaded = std::getenv("LD_PRELOAD");
  if (name.starts_with("/proc/self/fd/")) {
    origin = Origin::kInjected;
  } else if (preloaded != nullptr && std::string_view(preloaded).find(name) != std::string_view::npos) {
    origin = Origin::kPreloaded;
  }
}

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

// LD_PRELOAD reaches every program a job starts: shells, compilers, `env`. Only Pythons are
// meant, and with `probing run` only the one that was asked for.
bool WantedHere() {
  if (IsSet("PROBING_DISABLE")) return false;
  if (origin == Origin::kInjected) return true;
  const char* only_pid = std::getenv("PROBING_RUN_PID");
  if (only_pid != nullptr && *only_pid != '\0' && std::atol(only_pid) != getpid()) return false;
  return origin == Origin::kImported || dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr;
}

// The three come in one fork or none does something: fork_mutex is held from the first to the others, and
// `unloading` changes under it only.
void BeforeFork() {
  const InForkHandler inside;
  if (unloading.load()) return;
  PauseForFork();
  pthread_mutex_lock(&fork_mutex);
  if (unloading.load()) {
    pthread_mutex_unlock(&fork_mutex);
    return;
  }
  record::Recorder::BeforeFork();
}

void AfterForkInParent() {
  const InForkHandler inside;
  if (unloading.load()) return;
  record::Recorder::AfterForkInParent();
  pthread_mutex_unlock(&fork_mutex);
  ResumeAfterFork();
}

// In a forked child: our thread does not exist there. What is left of us is closed; the parent's
// socket file is the parent's.
void InForkedChild() {
  if (unloading.load()) return;
  in_fork_handlers.store(0);  // other threads were in them, and are not here
  using enum record::Recorder::Follow;
  record::Recorder::InForkedChild(nested.load() ? kYes : kNo);
  hooks::Hooks::InForkedChild();
  ForgetPauseInForkedChild();
  pyapi::CallInside::WhenAllAreGone(nullptr);  // a child keeps the code that it was born with
  pthread_mutex_unlock(&fork_mutex);
  for (auto& place : fork_closed) {
    const int fd = place.exchange(0) - 1;
    if (fd >= 0) close(fd);
  }
  socket_path[0] = '\0';
  if (active.exchange(false) && nested.load()) probing_start();
}

bool StartThread(ControlOptions* options) {
  auto thread = StartQuietThread(&probing_thread_entry, options, kSmallStackBytes, "probing");
  if (thread.ok()) {
    pthread_detach(*thread);
  } else {
    delete options;
  }
  return thread.ok();
}

void Start(ControlOptions::Delay delay) {
  if (active.exchange(true)) return;
  started_ns = WallNs();
  if (!fork_handler_set.exchange(true)) {
    __register_atfork(&BeforeFork, &AfterForkInParent, &InForkedChild, &__dso_handle);
  }
  auto* options = new ControlOptions;
  options->delay = delay;
  if (!StartThread(options)) active.store(false);
}

__attribute__((constructor)) void OnLoad() {
  FindOutOrigin();
  if (!WantedHere()) return;
  // Before the start: the probe's thread may have opened the way by then. Only for a preloaded library: any
  // other one is here in dlopen, whose lock the probe's thread needs; the start hook waits by itself.
  const bool waits = origin == Origin::kPreloaded && IsFirstClientAwaited();
  Start(ControlOptions::Delay::kNone);
  if (!waits) return;
  if (!active.load()) LetProgramStart();
  AwaitFirstClient();
}

// At exit of the process and in dlclose. Other threads may still run: touch nothing of theirs.
__attribute__((destructor)) void OnUnload() {
  if (socket_path[0] != '\0') unlink(socket_path.data());
  __cxa_finalize(&__dso_handle);
}

// Takes back what the C library has of ours. False when a thread of the job may still be on its way into or
// out of a fork handler: then the code has to stay.
bool TakeBackFromLibc() {
  constexpr std::int64_t kLongestMs = 1000;
  const Deadline deadline = Deadline::AfterMs(kLongestMs);
  {
    const NoForkNow hold;
    unloading.store(true);
  }
  __cxa_finalize(&__dso_handle);
  // Since glibc 2.36 handlers run without its lock: it may have let one begin just before.
  while (in_fork_handlers.load() != 0) {
    if (deadline.passed()) return false;
    SleepUs(200);
  }
  return WaitForQuiescence(deadline.left_ms());
}

}  // namespace

std::string_view OriginName(Origin which) {
  switch (which) {
    case Origin::kInjected:
      return "injected";
    case Origin::kPreloaded:
      return "preload";
    case Origin::kImported:
      return "import";
  }
  return "";
}

Origin ThisOrigin() { return origin; }

std::string LibraryPath() { return this_library != nullptr ? this_library->l_name : ""; }

std::int64_t StartedNs() { return started_ns; }

void RememberSocket(const std::string& path) {
  std::snprintf(socket_path.data(), socket_path.size(), "%s", path.c_str());
}

void RemoveSocket() {
  if (socket_path[0] != '\0') unlink(socket_path.data());
  socket_path[0] = '\0';
}

void FollowForks(bool follow) { nested.store(follow); }

bool StartThreadAgain(Control* control) {
  auto* options = new ControlOptions;
  options->paused = control;
  return StartThread(options);
}

void* Leave(Unload unload) {
  LetProgramStart();  // if it still waits for a client
  RemoveSocket();
  active.store(false);
  if (unload == Unload::kNo || origin != Origin::kInjected) return nullptr;
  return TakeBackFromLibc() ? this_library : nullptr;
}

void NoteControlThread() { control_tid.store(static_cast<pid_t>(syscall(SYS_gettid))); }

void UnloadWhenUnused() {
  if (origin != Origin::kInjected) return;
  pyapi::CallInside::WhenAllAreGone([] {
    auto* options = new ControlOptions;
    options->unloads = true;
    (void)StartThread(options);
  });
}

void* UnloadUnused() {
  constexpr std::int64_t kLongestMs = 5000;
  const Deadline deadline = Deadline::AfterMs(kLongestMs);
  // The thread that has served may not be through with its last instructions.
  while (!IsGone(control_tid.load())) {
    if (deadline.passed()) return nullptr;
    SleepUs(200);
  }
  const pyapi::PythonApi* python = pyapi::FindPython();
  if (python == nullptr || !console::ReleaseLast(*python)) return nullptr;
  return Leave(Unload::kYes);
}

NoForkNow::NoForkNow() { pthread_mutex_lock(&fork_mutex); }

NoForkNow::~NoForkNow() { pthread_mutex_unlock(&fork_mutex); }

void ForkClosed::Add(int fd) {
  for (auto& place : fork_closed) {
    int expected = 0;
    if (place.compare_exchange_strong(expected, fd + 1)) return;
  }
}

void ForkClosed::Remove(int fd) {
  for (auto& place : fork_closed) {
    int expected = fd + 1;
    if (place.compare_exchange_strong(expected, 0)) return;
  }
}

}  // namespace probing::probe

const char* probing_version(void) { return PROBING_VERSION; }

int probing_active(void) { return probing::probe::active.load() ? 1 : 0; }

int probing_start(void) {
  // A child that is about to exec should not be given a socket first.
  probing::probe::Start(probing::probe::ControlOptions::Delay::kAfterFork);
  return probing_active();
}

int probing_python(void) {
  using namespace probing;
  if (probing_active() == 0) return 0;
  // The probe's thread may not have come this far: the program is faster.
  wire::Settings settings(wire::Holder::kProbe);
  (void)settings.LoadEnvironment();
  const bool first = record::Recorder::Open(probe::LimitsOf(settings));
  if (first) probe::FollowForks(settings.GetFlag("probing.nested"));
  // The hooks at once: a program that ends soon is hooked, and no thread of ours comes in between.
  const bool hooks = probe::ThisOrigin() == probe::Origin::kImported;
  return hooks::PublishNative(hooks ? probe::HooksOf(settings) : "") ? 1 : 0;
}
