#include "cpython/interpreter.h"

#include <algorithm>

#include "base/file.h"
#include "cpython/thread_ids.h"
#include "process/status.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

std::string KernelName(pid_t pid, pid_t tid) {
  if (tid == 0) return "";
  auto name = ReadFile("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/comm");
  if (!name.ok()) return "";
  while (!name->empty() && name->back() == '\n') name->pop_back();
  return std::move(*name);
}

Error WithProcess(Error error, pid_t pid) {
  error.message = "process " + std::to_string(pid) + ": " + error.message;
  if (error.code == Code::kPermission && error.hint.empty()) {
    error.hint = "run as the owner of the process or as root; `probing doctor` tells more";
  }
  return error;
}

}  // namespace

Interpreter::Interpreter(std::unique_ptr<const process::Memory> memory, Location location, pid_t pid)
    : pid_(pid), memory_(std::move(memory)), location_(std::move(location)), stacks_(*memory_, location_) {}

Result<Interpreter> Interpreter::Attach(pid_t pid) {
  RETURN_IF_ERROR(process::ReadStatus(pid));
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
  return Interpreter(std::move(memory), std::move(location), pid);
}

Result<Snapshot> Interpreter::Read(const ReadOptions& options) {
  ASSIGN_OR_RETURN(last_states_, ReadStates(*memory_, location_, last_states_));
  RETURN_IF_ERROR(Identify(last_states_));
  Snapshot snapshot;
  snapshot.version = location_.version;
  snapshot.free_threaded = location_.offsets.free_threaded;
  for (int number = 0; const InterpreterState& interpreter : last_states_) {
    const auto gil_holder = FindGilHolder(*memory_, location_, interpreter);
    for (const ThreadState& state : interpreter.threads) {
      const Identity& identity = identities_[state.address.address];
      Thread thread;
      thread.tid = identity.tid;
      thread.name = identity.name;
      thread.has_gil = gil_holder == state.address;
      thread.interpreter = number;
      thread.skipped = options.skip && options.skip(thread.tid);
      if (!thread.skipped) {
        Stack stack = stacks_.Read(state.address, options.max_depth, options.attempts);
        thread.frames = std::move(stack.frames);
        thread.torn = stack.torn;
        thread.truncated = stack.truncated;
      }
      if (thread.has_gil && !snapshot.gil_holder_tid) snapshot.gil_holder_tid = thread.tid;
      snapshot.threads.push_back(std::move(thread));
    }
    ++number;
  }
  std::stable_sort(snapshot.threads.begin(), snapshot.threads.end(), [&](const Thread& a, const Thread& b) {
    return std::pair(a.tid != pid_, a.tid) < std::pair(b.tid != pid_, b.tid);
  });
  return snapshot;
}

Result<void> Interpreter::Identify(const std::vector<InterpreterState>& interpreters) {
  std::vector<ThreadState> states;
  for (const InterpreterState& interpreter : interpreters) {
    states.insert(states.end(), interpreter.threads.begin(), interpreter.threads.end());
  }
  const bool all_known = std::all_of(states.begin(), states.end(), [&](const ThreadState& state) {
    const auto known = identities_.find(state.address.address);
    return known != identities_.end() && known->second.state == state;
  });
  if (all_known && identities_.size() == states.size()) return {};

  std::vector<pid_t> ids;
  if (pid_ != 0) {
    ASSIGN_OR_RETURN(const ThreadNumbers numbers, ReadThreadNumbers(pid_));
    ids = FindThreadIds(*memory_, states, numbers);
  } else {
    for (const ThreadState& state : states) ids.push_back(static_cast<pid_t>(state.native_id));
  }
  identities_.clear();
  std::vector<RemoteAddress> alive;
  for (std::size_t i = 0; i < states.size(); ++i) {
    alive.push_back(states[i].address);
    identities_[states[i].address.address] = {states[i], ids[i], pid_ != 0 ? KernelName(pid_, ids[i]) : ""};
  }
  stacks_.Keep(alive);
  return {};
}

}  // namespace probing::cpython
