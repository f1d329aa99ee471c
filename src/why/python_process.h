// One Python process as the search for causes needs it: threads with their frames and the objects which those
// frames hold, read once, without stopping or calling anything.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cpython/attributes.h"
#include "cpython/locals.h"
#include "cpython/stack_reader.h"
#include "cpython/tasks.h"
#include "cpython/thread_ids.h"
#include "process/page_cache.h"

namespace probing::why {

using process::RemoteAddress;

struct PythonThread {
  pid_t tid = 0;
  std::uint64_t ident = 0;  // what threading calls it, the pthread_t
  std::string name;         // threading's; "" for a thread it does not know
  bool has_gil = false;
  std::vector<cpython::Frame> frames;  // innermost first
  std::vector<cpython::RawFrame> raw;  // of each frame
};

// A lock of Python's, as the interpreter keeps it.
struct LockObject {
  enum class Kind : std::uint8_t { kLock, kRLock, kSemaphore };  // the last: multiprocessing's
  Kind kind = Kind::kLock;
  RemoteAddress object;
  std::uint64_t word = 0;   // what a thread that waits for it sleeps on
  std::uint64_t owner = 0;  // ident of the thread that has it; 0: nobody, or it does not know
};

// Not thread-safe.
class PythonProcess {
 public:
  static Result<std::unique_ptr<PythonProcess>> Read(pid_t pid);

  pid_t pid() const { return pid_; }
  const std::vector<PythonThread>& threads() const { return threads_; }
  const std::vector<cpython::Task>& tasks();
  const PythonThread* FindThread(pid_t tid) const;
  const PythonThread* FindIdent(std::uint64_t ident) const;
  const PythonThread* GilHolder() const;
  // Whether this address is among the interpreter's own variables, where the GIL is.
  bool IsRuntime(std::uint64_t address) const;

  // The first argument of a frame's function: `self` of a method. Null when it is unknown.
  RemoteAddress FirstArgument(const cpython::RawFrame& frame) const;
  // A variable of a frame as a text: "3"; "" when there is none.
  std::string Variable(const cpython::RawFrame& frame, std::string_view name);
  RemoteAddress Attribute(RemoteAddress object, std::string_view name) const;
  std::string TextAttribute(RemoteAddress object, std::string_view name) const;
  std::optional<std::uint64_t> NumberAttribute(RemoteAddress object, std::string_view name) const;
  std::string TypeName(RemoteAddress object) const;
  // A global variable of a module that is loaded; null when there is none.
  RemoteAddress ModuleVariable(std::string_view module, std::string_view name) const;
  std::vector<std::pair<RemoteAddress, RemoteAddress>> DictItems(RemoteAddress dict,
                                                                 std::size_t max_items) const;
  std::optional<std::uint64_t> NumberOf(RemoteAddress number) const;
  // What the frame's variables and its stack of values point to; what makes no sense is left out.
  std::vector<RemoteAddress> ObjectsOf(const cpython::RawFrame& frame) const;
  const std::vector<RemoteAddress>& AttributesOf(RemoteAddress object) const;

  // The lock that `object` is, or has among its attributes (a Condition, a Queue), if a thread would wait for
  // it at `word`.
  std::optional<LockObject> FindLock(const PythonThread& thread, std::uint64_t word);
  std::optional<LockObject> AsLock(RemoteAddress object) const;

  // How a thread's frames hold an object.
  enum class Hold : std::uint8_t { kNone, kReference, kInWith };
  Hold HowHeld(const PythonThread& thread, RemoteAddress object);

  // multiprocessing's locks that frames of this process know.
  const std::vector<LockObject>& Semaphores();

 private:
  PythonProcess(pid_t pid, std::unique_ptr<process::Memory> memory, cpython::Location location,
                process::Maps maps);
  Result<void> ReadThreads();
  // If it is a bound method of C: the object that it is bound to.
  RemoteAddress BoundTo(RemoteAddress object) const;
  std::string MethodName(RemoteAddress method) const;  // REQUIRES: a bound method of C
  bool IsAlive(RemoteAddress object) const;

  pid_t pid_;
  std::unique_ptr<process::Memory> memory_;
  process::PageCache pages_;  // for objects, which are looked at again and again; stacks are read anew
  cpython::Location location_;
  process::Maps maps_;
  cpython::AttributeReader attributes_;
  cpython::StackReader stacks_;
  cpython::LocalsReader locals_;
  std::vector<cpython::InterpreterState> states_;
  std::vector<PythonThread> threads_;
  std::optional<std::vector<cpython::Task>> tasks_;
  std::optional<std::vector<LockObject>> semaphores_;
  mutable std::unordered_map<std::uint64_t, std::vector<RemoteAddress>> attributes_of_;  // by object
};

}  // namespace probing::why
