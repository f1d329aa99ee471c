// What the interpreter knows: locks, conditions, queues, the GIL, joined threads.
#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "process/status.h"
#include "why/investigation.h"

namespace probing::why {
namespace {

constexpr std::uint32_t kContendedMutex = 2;  // what glibc's mutex has in its word while others wait
constexpr std::size_t kMutexOwner = 8;        // where it has the owner's thread id

bool IsIn(const cpython::Frame& frame, std::string_view file) { return frame.file.ends_with(file); }

std::string Hex(std::uint64_t address) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(address));
  return text.data();
}

// A thread of a pool that has nothing to do.
bool IsIdlePool(const PythonThread& thread) {
  for (const cpython::Frame& frame : thread.frames) {
    if (!IsLibraryFile(frame.file)) return false;
  }
  return true;
}

}  // namespace

void Investigation::WaitForFutex(Look& look) {
  const std::uint64_t word = look.call.arguments[0];
  Node& node = graph_.nodes[look.node];
  if (look.process != nullptr && look.python != nullptr) {
    if (look.process->IsRuntime(word) && !look.python->has_gil) {
      const PythonThread* holder = look.process->GilHolder();
      if (holder != nullptr && holder->tid != 0) {
        return AddWait(look, AddThread(look.pid, holder->tid), "the GIL");
      }
      node.end = End::kRuns;  // it was let go a moment ago
      node.note = "takes turns with other threads (GIL)";
      return;
    }
    if (WaitForJoin(look)) return;
    if (WaitForNotification(look)) return;
    if (WaitForLock(look, word)) return;
  }
  if (WaitForMutex(look, word)) return;
  if (WaitForRanks(look)) return;
  if (look.python != nullptr && look.python->frames.empty()) {
    graph_.nodes[look.node].end = End::kIdle;
    return;
  }
  graph_.nodes[look.node].note = "a lock or condition of native code, which has no owner";
}

bool Investigation::WaitForJoin(Look& look) {
  const PythonThread& thread = *look.python;
  for (std::size_t i = 0; i < std::min<std::size_t>(thread.raw.size(), 3); ++i) {
    if (!IsIn(thread.frames[i], "threading.py")) return false;
    const std::string_view function = PlainName(thread.frames[i].function);
    if (function == "_shutdown") {
      for (const PythonThread& other : look.process->threads()) {
        if (other.tid != look.tid && other.tid != 0 && !IsIdlePool(other)) {
          AddWait(look, AddThread(look.pid, other.tid), "the end of the program's threads", false);
        }
      }
      return !graph_.nodes[look.node].waits.empty();
    }
    if (function != "join") continue;
    const RemoteAddress joined = look.process->FirstArgument(thread.raw[i]);
    const auto ident = look.process->NumberAttribute(joined, "_ident");
    const PythonThread* other = ident ? look.process->FindIdent(*ident) : nullptr;
    if (other == nullptr || other->tid == 0) return false;
    AddWait(look, AddThread(look.pid, other->tid), "Thread.join");
    return true;
  }
  return false;
}

// Condition.wait and what is made of it: queues, events, futures, semaphores, barriers.
bool Investigation::WaitForNotification(Look& look) {
  const PythonThread& thread = *look.python;
  if (thread.raw.empty() || PlainName(thread.frames[0].function) != "wait" ||
      !IsIn(thread.frames[0], "threading.py")) {
    return false;
  }
  std::vector<RemoteAddress> objects;
  std::string kind = "Condition";
  for (std::size_t i = 0; i < thread.raw.size() && IsLibraryFile(thread.frames[i].file); ++i) {
    const RemoteAddress object = look.process->FirstArgument(thread.raw[i]);
    const std::string type = object ? look.process->TypeName(object) : "";
    if (type.empty()) continue;
    objects.push_back(object);
    // threading.Condition in Event in …: the outermost is the one that the user knows.
    if (IsIn(thread.frames[i], "threading.py") || IsIn(thread.frames[i], "queue.py") ||
        IsIn(thread.frames[i], "concurrent/futures/_base.py") || IsIn(thread.frames[i], "pool.py")) {
      kind = type;
    }
    if (type == "Future") {
      for (const PythonThread& other : look.process->threads()) {
        for (std::size_t k = 0; k < other.raw.size(); ++k) {
          if (PlainName(other.frames[k].function) != "run" ||
              !IsIn(other.frames[k], "concurrent/futures/thread.py")) {
            continue;
          }
          const RemoteAddress item = look.process->FirstArgument(other.raw[k]);
          if (look.process->Attribute(item, "future") != object || other.tid == 0) continue;
          AddWait(look, AddThread(look.pid, other.tid), "Future.result of a thread pool");
          return true;
        }
      }
    }
  }
  // A pool of processes: the one that works is among the children.
  const bool is_pool = std::ranges::any_of(look.process->threads(), [](const PythonThread& other) {
    return std::ranges::any_of(other.frames, [](const cpython::Frame& frame) {
      return IsIn(frame, "multiprocessing/pool.py") || IsIn(frame, "concurrent/futures/process.py");
    });
  });
  if (is_pool && (kind == "Future" || kind == "ApplyResult" || kind == "MapResult" ||
                  kind == "IMapIterator" || kind == "Pool")) {
    for (const pid_t child : ChildrenOf(look.pid)) {
      AddWait(look, AddProcess(child), kind + " of a process pool");
    }
    if (!graph_.nodes[look.node].waits.empty()) return true;
  }
  WaitForThreadsWith(look, objects, kind);
  if (graph_.nodes[look.node].waits.empty()) {
    graph_.nodes[look.node].note = kind + ": no other thread of this process could notify it";
  }
  return true;
}

void Investigation::WaitForThreadsWith(Look& look, const std::vector<RemoteAddress>& objects,
                                       const std::string& reason) {
  if (look.process == nullptr) return;
  std::vector<pid_t> holders;
  for (const PythonThread& other : look.process->threads()) {
    if (other.tid == look.tid || other.tid == 0 || other.frames.empty()) continue;
    const bool holds = std::ranges::any_of(objects, [&](RemoteAddress object) {
      return look.process->HowHeld(other, object) != PythonProcess::Hold::kNone;
    });
    if (holds) holders.push_back(other.tid);
  }
  for (const pid_t tid : holders) {
    AddWait(look, AddThread(look.pid, tid), reason + ", which this thread knows", false);
  }
  if (!holders.empty()) return;
  // It may be a global variable.
  for (const PythonThread& other : look.process->threads()) {
    if (other.tid == look.tid || other.tid == 0 || other.frames.empty() || IsIdlePool(other)) continue;
    AddWait(look, AddThread(look.pid, other.tid), reason + "; nothing says which thread would notify it",
            false);
  }
}

bool Investigation::WaitForLock(Look& look, std::uint64_t word) {
  const auto lock = look.process->FindLock(*look.python, word);
  if (!lock) return false;
  if (lock->kind == LockObject::Kind::kSemaphore) {
    WaitForSemaphore(look, *lock);
  } else {
    WaitForOwner(look, *lock);
  }
  return true;
}

void Investigation::WaitForOwner(Look& look, const LockObject& lock) {
  const bool is_recursive = lock.kind == LockObject::Kind::kRLock;
  const std::string name = (is_recursive ? "RLock at " : "Lock at ") + Hex(lock.object.address);
  if (const PythonThread* owner = look.process->FindIdent(lock.owner)) {
    if (owner->tid != 0) return AddWait(look, AddThread(look.pid, owner->tid), name);
  }
  if (is_recursive && lock.owner != 0) {
    graph_.nodes[look.node].end = End::kDied;
    graph_.nodes[look.node].note = name + " is owned by a thread that has ended";
    return;
  }
  // threading.Lock has no owner. A thread inside of `with lock:` has it, unless it still waits to get in.
  for (const PythonThread& other : look.process->threads()) {
    if (other.tid == 0 || other.tid == look.tid) continue;
    const auto call = process::ReadBlockedCall(look.pid, other.tid);
    if (call.ok() && call->number == SYS_futex && call->arguments[0] == lock.word) continue;
    if (look.process->HowHeld(other, lock.object) != PythonProcess::Hold::kInWith) continue;
    AddWait(look, AddThread(look.pid, other.tid), name + ", in whose `with` this thread is");
  }
  if (!graph_.nodes[look.node].waits.empty()) return;
  WaitForThreadsWith(look, {lock.object}, name + " (a Lock does not record its owner)");
  if (graph_.nodes[look.node].waits.empty()) {
    graph_.nodes[look.node].note = name + ": no other thread of this process could release it";
  }
}

// multiprocessing's locks are in memory that processes share, and each of them counts for itself.
void Investigation::WaitForSemaphore(Look& look, const LockObject& lock) {
  const auto shared = [](pid_t pid, std::uint64_t address) -> std::pair<std::uint64_t, std::uint64_t> {
    const auto maps = process::Maps::Read(pid);
    const process::Mapping* mapping = maps.ok() ? maps->Find(address) : nullptr;
    if (mapping == nullptr || mapping->inode == 0) return {0, 0};
    return {mapping->inode, address - mapping->start + mapping->file_offset};
  };
  const auto place = shared(look.pid, lock.word);
  const auto add_owner = [&](PythonProcess& python, const LockObject& other) {
    if (other.kind != LockObject::Kind::kSemaphore || other.owner == 0) return;
    if (shared(python.pid(), other.word) != place) return;
    const PythonThread* owner = python.FindIdent(other.owner);
    if (owner == nullptr || owner->tid == 0 || (python.pid() == look.pid && owner->tid == look.tid)) return;
    AddWait(look, AddThread(python.pid(), owner->tid), "multiprocessing lock");
  };
  std::vector<PythonProcess*> sharers;
  for (const pid_t pid : descriptors_.Processes()) {
    const auto maps = place.first != 0 ? process::Maps::Read(pid) : Result<process::Maps>(Error{});
    if (!maps.ok() || std::ranges::none_of(maps->all(), [&](const process::Mapping& mapping) {
          return mapping.inode == place.first;
        })) {
      continue;
    }
    if (PythonProcess* python = Python(pid)) sharers.push_back(python);
  }
  // After a fork the same object is at the same place.
  for (PythonProcess* python : sharers) {
    if (const auto same = python->AsLock(lock.object)) add_owner(*python, *same);
  }
  for (PythonProcess* python : sharers) {
    if (!graph_.nodes[look.node].waits.empty()) return;
    for (const LockObject& other : python->Semaphores()) add_owner(*python, other);
  }
  if (!graph_.nodes[look.node].waits.empty()) return;
  for (const pid_t child : ChildrenOf(look.pid)) {
    const auto status = process::ReadStatus(child);
    if (status.ok() && status->ended()) AddWait(look, AddProcess(child), "multiprocessing lock", false);
  }
  if (!graph_.nodes[look.node].waits.empty()) return;
  // A semaphore is nobody's: any process may release it.
  graph_.nodes[look.node].end = sharers.size() > 1 ? End::kUnknown : End::kDied;
  graph_.nodes[look.node].note =
      sharers.size() > 1 ? "a multiprocessing lock or semaphore that no living process says it holds"
                         : "a multiprocessing lock that no other living process has: its holder died";
}

// A mutex of glibc has the thread id of its owner behind its word.
bool Investigation::WaitForMutex(Look& look, std::uint64_t word) {
  const std::uint64_t operation = look.call.arguments[1] & FUTEX_CMD_MASK;
  const bool is_wait = operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
  if (!is_wait || static_cast<std::uint32_t>(look.call.arguments[2]) != kContendedMutex) return false;
  const process::ProcessMemory memory(look.pid);
  const auto owner = memory.ReadValue(process::RemotePtr<std::int32_t>{word + kMutexOwner});
  if (!owner.ok() || *owner <= 0) return false;
  const auto numbers = cpython::ReadThreadNumbers(look.pid);
  if (!numbers.ok()) return false;
  const auto found = numbers->find(*owner);
  if (found == numbers->end() || found->second == look.tid) return false;
  AddWait(look, AddThread(look.pid, found->second), "a mutex of native code");
  return true;
}

}  // namespace probing::why
