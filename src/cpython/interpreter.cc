#include "cpython/interpreter.h"

#include <algorithm>
#include <unordered_map>

#include "base/clock.h"
#include "base/file.h"
#include "cpython/greenlets.h"
#include "cpython/thread_names.h"
#include "process/status.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

// With ReadOptions::share_cpu: so often a thread is looked at from elsewhere, where it settles only if
// it waits for something, and then from its own CPU, where the first look is nearly always enough.
constexpr int kStillAttempts = 8;
constexpr int kSharedAttempts = 30;
// Readings after a change in which names are looked for, as long as some are missing.
constexpr int kLooksForNames = 3;
constexpr std::size_t kManyThreads = 3;
constexpr std::int64_t kTasksKnownNs = 1'000'000'000;

std::string KernelName(pid_t pid, pid_t tid) {
  if (pid == 0 || tid == 0) return "";
  auto name = ReadFile("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/comm");
  if (!name.ok()) return "";
  while (!name->empty() && name->back() == '\n') name->pop_back();
  return std::move(*name);
}

// What uids and gids show as that have no number in this user namespace (/proc/sys/kernel/overflowuid).
constexpr uid_t kUnmappedUid = 65534;

Error HasEnded(const process::Status& status) {
  const std::string parent = std::to_string(status.parent);
  return {Code::kNotFound,
          "process " + std::to_string(status.pid) +
              " has ended (zombie): its memory is gone, only its parent " + parent +
              " has not asked for the exit status",
          "`probing -t " + parent + " backtrace` shows what the parent does instead"};
}

Error WithProcess(Error error, pid_t pid) {
  error.message = "process " + std::to_string(pid) + ": " + error.message;
  const auto status = process::ReadStatus(pid);
  if (error.code == Code::kPermission && status.ok() && status->effective_uid == kUnmappedUid) {
    error.message += "; its user has no number in this user namespace";
    error.hint = "run probing where the container was started from: outside, as root";
    return error;
  }
  if (error.code == Code::kPermission && error.hint.empty()) {
    error.hint = "run as the owner of the process or as root; `probing doctor` tells more";
  }
  return error;
}

}  // namespace

Interpreter::Interpreter(std::unique_ptr<const process::Memory> memory, Location location, pid_t pid)
    : pid_(pid),
      main_tid_(pid),
      memory_(std::move(memory)),
      location_(std::move(location)),
      stacks_(std::make_unique<StackReader>(*memory_, location_)),
      loops_(*memory_, location_) {}

void Interpreter::SetThreadsOfDead(pid_t main_tid, const std::vector<pid_t>& tids) {
  numbers_of_dead_.clear();
  for (const pid_t tid : tids) numbers_of_dead_.emplace(tid, tid);
  main_tid_ = main_tid;
}

Result<Interpreter> Interpreter::Attach(pid_t pid) {
  ASSIGN_OR_RETURN(const process::Status status, process::ReadStatus(pid));
  if (status.ended()) return HasEnded(status);
  auto maps = process::Maps::Read(pid);
  if (!maps.ok()) return WithProcess(std::move(maps.error()), pid);
  auto memory = std::make_unique<process::ProcessMemory>(pid);
  // Without this a process that may not be read would look like one without Python.
  if (!maps->all().empty()) {
    const auto first = memory->ReadValue(process::RemotePtr<char>{maps->all().front().start});
    if (!first.ok() && first.error().code != Code::kFailed) return WithProcess(first.error(), pid);
  }
  auto interpreter = Attach(std::move(memory), *maps, pid);
  if (!interpreter.ok()) return WithProcess(std::move(interpreter.error()), pid);
  return interpreter;
}

Result<Interpreter> Interpreter::Attach(std::unique_ptr<const process::Memory> memory,
                                        const process::Maps& maps, pid_t pid) {
  ASSIGN_OR_RETURN(Location location, Locate(*memory, maps));
  Interpreter interpreter(std::move(memory), std::move(location), pid);
  if (pid == 0) interpreter.maps_of_dead_ = maps;
  return interpreter;
}

Result<Snapshot> Interpreter::Read(const ReadOptions& options) {
  const bool same = !last_states_.empty() && AreStill(*memory_, location_, last_states_, options.changes);
  if (!same) RETURN_IF_ERROR(UpdateThreads());
  if (options.changes == Changes::kAll || !same) UpdatePythonNames();
  Snapshot snapshot;
  if (options.only == 0) snapshot.threads.reserve(identities_.size());
  snapshot.version = location_.version;
  snapshot.free_threaded = location_.offsets.free_threaded;
  snapshot.interpreter_count = last_states_.size();
  if (options.locals) stacks_->BeginLocals(options.depth_of_values);
  std::size_t index = 0;
  for (const InterpreterState& interpreter : last_states_) {
    const auto gil_holder = FindGilHolder(*memory_, location_, interpreter);
    const auto collecting = IsCollecting(*memory_, location_, interpreter);
    if (collecting) snapshot.is_collecting = *collecting || snapshot.is_collecting.value_or(false);
    if (options.event_loops && interpreter.id == 0)
      snapshot.gil_switches = last_gil_switches_ = gil_switches_.Read(*memory_, location_, interpreter);
    std::vector<Stack> waiting = ReadWaiting(interpreter, options);
    for (std::size_t i = 0; i < interpreter.threads.size(); ++i) {
      const ThreadState& state = interpreter.threads[i];
      const Identity& identity = identities_[index++];
      if (options.only != 0 && identity.tid != options.only) continue;
      Thread thread;
      thread.tid = identity.tid;
      if (options.kernel_names) thread.name = NameOf(identities_[index - 1]);
      thread.python_name = identity.python_name;
      thread.has_gil = gil_holder == state.address;
      thread.interpreter_id = interpreter.id;
      thread.is_collecting = thread.has_gil && collecting.value_or(false);
      thread.skipped = options.skip && options.skip(thread);
      if (!thread.skipped) {
        const bool have = i < waiting.size() && !waiting[i].torn;
        Stack stack = have             ? std::move(waiting[i])
                      : options.steady ? ReadSteadily(identity, thread, options)
                                       : ReadStack(identity, options);
        if (options.locals) {
          stacks_->AddLocals(state.address, options.max_depth, options.attempts, stack);
        }
        if (options.event_loops && !stack.torn)
          thread.loop = loops_.Read(interpreter.address, stack.frames, stack.raw);
        thread.frames = std::move(stack.frames);
        thread.loops = std::move(stack.loops);
        thread.torn = stack.torn;
        thread.truncated = stack.truncated;
        thread.left_out = stack.left_out;
        thread.left_out_at = stack.left_out_at;
      }
      if (thread.has_gil && !snapshot.gil_holder_tid) snapshot.gil_holder_tid = thread.tid;
      snapshot.threads.push_back(std::move(thread));
    }
  }
  std::stable_sort(snapshot.threads.begin(), snapshot.threads.end(), [&](const Thread& a, const Thread& b) {
    return std::pair(a.tid != main_tid_, a.tid) < std::pair(b.tid != main_tid_, b.tid);
  });
  if (options.tasks && (!options.want_tasks || options.want_tasks(snapshot.threads))) AddTasks(snapshot);
  if (options.greenlets_ms > 0) AddGreenlets(snapshot, options.greenlets_ms);
  return snapshot;
}

Result<process::Maps> Interpreter::ReadMaps() const {
  return pid_ != 0 ? process::Maps::Read(pid_) : Result<process::Maps>(maps_of_dead_);
}

void Interpreter::AddGreenlets(Snapshot& snapshot, std::int64_t limit_ms) {
  GreenletReader reader(*memory_, location_, *stacks_);
  std::optional<process::Maps> maps;  // read only where there are greenlets
  snapshot.greenlet_count = 0;
  for (const InterpreterState& interpreter : last_states_) {
    if (!reader.MayHaveSome(interpreter)) continue;
    if (!maps) {
      auto read = ReadMaps();
      if (!read.ok()) {
        snapshot.greenlets_unknown = read.error().message;
        break;
      }
      maps = std::move(*read);
    }
    GreenletReader::Found found = reader.Read(interpreter, *maps, limit_ms);
    if (!found.unknown.empty()) snapshot.greenlets_unknown = found.unknown;
    *snapshot.greenlet_count += found.count;
    for (GreenletReader::FoundGreenlet& one : found.greenlets) {
      const auto owner = std::find_if(identities_.begin(), identities_.end(), [&](const Identity& identity) {
        return one.stack.Contains(identity.state.pthread);
      });
      // Every other thread has its record at the end of its stack. Core files have no names of mappings.
      if (owner == identities_.end() && one.stack.path == (pid_ != 0 ? "[stack]" : "")) {
        one.greenlet.tid = main_tid_;
      }
      if (owner != identities_.end()) one.greenlet.tid = owner->tid;
      snapshot.greenlets.push_back(std::move(one.greenlet));
    }
  }
  if (!snapshot.greenlets_unknown.empty()) snapshot.greenlet_count.reset();
}

// What is known about tasks holds for a moment: asyncio may be imported later, and another thread may run an
// event loop that has the address of an old one.
Result<TaskReader*> Interpreter::Tasks() {
  const std::int64_t now_ns = MonotonicNs();
  if (tasks_ != nullptr && now_ns - tasks_since_ns_ < kTasksKnownNs) return tasks_.get();
  ASSIGN_OR_RETURN(const process::Maps maps, ReadMaps());
  tasks_ = std::make_unique<TaskReader>(*memory_, location_, maps, *stacks_);
  tasks_since_ns_ = now_ns;
  return tasks_.get();
}

void Interpreter::AddTasks(Snapshot& snapshot) {
  const Result<TaskReader*> reader = Tasks();
  if (!reader.ok()) {
    snapshot.tasks_unknown = reader.error().message;
    return;
  }
  snapshot.task_count = 0;
  for (const InterpreterState& interpreter : last_states_) {
    TaskReader::Found found = (*reader)->Read(interpreter);
    if (!found.unknown.empty()) snapshot.tasks_unknown = found.unknown;
    *snapshot.task_count += found.count;
    for (TaskReader::FoundTask& one : found.tasks) {
      const auto runs = std::find_if(identities_.begin(), identities_.end(), [&](const Identity& identity) {
        return one.pthread != 0 && identity.state.pthread == one.pthread;
      });
      if (runs != identities_.end()) one.task.tid = runs->tid;
      snapshot.tasks.push_back(std::move(one.task));
    }
  }
  if (!snapshot.tasks_unknown.empty()) snapshot.task_count.reset();
  std::stable_sort(snapshot.tasks.begin(), snapshot.tasks.end(), [](const Task& a, const Task& b) {
    // By name, so that Task-10 comes after Task-9.
    return std::pair(a.name.size(), a.name) < std::pair(b.name.size(), b.name);
  });
}

std::vector<Stack> Interpreter::ReadWaiting(const InterpreterState& interpreter, const ReadOptions& options) {
  // Variables are to be read right after the frames they belong to.
  const bool is_simple = options.only == 0 && !options.locals && !options.steady && !options.skip;
  if (!is_simple || interpreter.threads.size() < kManyThreads) return {};
  std::vector<RemoteAddress> threads;
  for (const ThreadState& state : interpreter.threads) threads.push_back(state.address);
  return stacks_->ReadMany(threads, {.max_depth = options.max_depth, .must_stand_still = options.share_cpu});
}

Stack Interpreter::ReadStack(const Identity& identity, const ReadOptions& options) {
  const RemoteAddress thread = identity.state.address;
  const StackOptions patient{.max_depth = options.max_depth, .attempts = options.attempts};
  if (!options.share_cpu || pid_ == 0 || identity.tid == 0) return stacks_->Read(thread, patient);
  Stack stack = stacks_->Read(
      thread, {.max_depth = options.max_depth, .attempts = kStillAttempts, .must_stand_still = true});
  if (!stack.torn) return stack;
  process::SharedCpu cpu(pid_, identity.tid);
  stack = stacks_->Read(thread, {.max_depth = options.max_depth, .attempts = kSharedAttempts, .cpu = &cpu});
  if (!stack.torn || cpu.CanEver()) return stack;
  return stacks_->Read(thread, patient);
}

Stack Interpreter::ReadSteadily(const Identity& identity, const Thread& thread, const ReadOptions& options) {
  const StackOptions once{.max_depth = options.max_depth, .attempts = 1, .keep_doubtful = true};
  Stack stack;
  stack.torn = true;
  options.steady(thread, [&] {
    stack = stacks_->Read(identity.state.address, once);
    if (stack.torn) return Reading::kTorn;
    return stack.doubtful ? Reading::kDoubtful : Reading::kRight;
  });
  return stack;
}

const std::string& Interpreter::NameOf(Identity& identity) const {
  if (!identity.name) identity.name = KernelName(pid_, identity.tid);
  return *identity.name;
}

Result<void> Interpreter::UpdateThreads() {
  ASSIGN_OR_RETURN(auto interpreters, ReadStates(*memory_, location_));
  std::vector<ThreadState> states;
  for (const InterpreterState& interpreter : interpreters) {
    states.insert(states.end(), interpreter.threads.begin(), interpreter.threads.end());
  }
  std::unordered_map<std::uint64_t, const Identity*> known;  // by the address of the thread state
  for (const Identity& identity : identities_) known[identity.state.address.address] = &identity;
  const auto find = [&](const ThreadState& state) -> const Identity* {
    const auto found = known.find(state.address.address);
    return found != known.end() && found->second->state == state ? found->second : nullptr;
  };
  std::vector<pid_t> ids;
  if (pid_ == 0) {
    ids = FindThreadIds(*memory_, states, numbers_of_dead_);
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (ids[i] == 0) ids[i] = static_cast<pid_t>(states[i].native_id);
    }
  } else if (!std::all_of(states.begin(), states.end(), find)) {
    ASSIGN_OR_RETURN(const ThreadNumbers numbers, ReadThreadNumbers(pid_));
    ids = FindThreadIds(*memory_, states, numbers);
  }
  std::vector<Identity> identities;
  std::vector<RemoteAddress> alive;
  for (std::size_t i = 0; i < states.size(); ++i) {
    alive.push_back(states[i].address);
    const Identity* same = find(states[i]);
    const bool is_same = same != nullptr && (ids.empty() || ids[i] == same->tid);
    identities.push_back(is_same ? *same : Identity{states[i], ids[i], std::nullopt, ""});
  }
  stacks_->Keep(alive);
  identities_ = std::move(identities);
  last_states_ = std::move(interpreters);
  looks_for_names_left_ = kLooksForNames;
  return {};
}

void Interpreter::UpdatePythonNames() {
  const auto has_name = [](const Identity& identity) { return !identity.python_name.empty(); };
  if (looks_for_names_left_ == 0 || std::all_of(identities_.begin(), identities_.end(), has_name)) return;
  --looks_for_names_left_;
  std::size_t index = 0;
  for (const InterpreterState& interpreter : last_states_) {
    const ThreadNames names = ReadThreadNames(*memory_, location_, interpreter.address);
    for (std::size_t i = 0; i < interpreter.threads.size(); ++i, ++index) {
      Identity& identity = identities_[index];
      if (const auto found = names.find(identity.state.pthread); found != names.end()) {
        identity.python_name = found->second;
      }
    }
  }
}

}  // namespace probing::cpython
