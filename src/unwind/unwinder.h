// Unwinder: native stacks of the threads of a process, read from outside: a live one, or a dead one.
//
//   SymbolStore symbols;
//   ASSIGN_OR_RETURN(auto unwinder, Unwinder::Attach(pid, symbols));
//   ASSIGN_OR_RETURN(const NativeStack stack, unwinder.Read(tid, {}));
//
// Keep it to read the same process again: what it learns (unwind rules and names by address) makes
// later readings some microseconds per frame cheaper. Not thread-safe. Everything read is untrusted.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <unordered_map>

#include "unwind/capture.h"
#include "unwind/cython.h"
#include "unwind/jit_code.h"
#include "unwind/modules.h"
#include "unwind/native_stack.h"

namespace probing::unwind {

struct ReadOptions {
  std::size_t max_depth = 16384;
  std::int64_t deadline_ms = 300;  // for the thread to stop
  // Reads what must belong to the same moment (the thread's Python stack). May be called twice: the
  // last call counts.
  WhileStill while_still = [] {};
};

class Unwinder {
 public:
  // Lifetime: `symbols` must outlive it.
  static Result<Unwinder> Attach(pid_t pid, SymbolStore& symbols);

  // What is left of a process (a core file): only ReadDead().
  static Unwinder OfDead(std::unique_ptr<const process::Memory> memory, process::Maps maps,
                         FindFile find_file, SymbolStore& symbols);

  // One thread of a live process, as seen from here. A stack that cannot be followed to its end is a value,
  // not an error: see NativeStack::end.
  Result<NativeStack> Read(pid_t tid, const ReadOptions& options);

  // A thread that had these registers.
  NativeStack ReadDead(const Registers& registers, const ReadOptions& options);

  // Fills NativeFrame::places, from the debug information of files, or from debug files beside them. Nothing
  // is read from the thread: it may have gone on.
  void AddLines(NativeStack& stack);

 private:
  Unwinder(pid_t pid, std::unique_ptr<const process::Memory> memory, FindFile find_file, SymbolStore& symbols)
      : pid_(pid), memory_(std::move(memory)), find_file_(std::move(find_file)), symbols_(&symbols) {}

  struct Walk;

  Result<NativeStack> TryToRead(pid_t tid, const ReadOptions& options);
  NativeStack WalkStack(const Capture& capture, const ReadOptions& options);
  StackEnd TakeStep(Walk& walk);
  Result<Registers> StepByGuess(const Row* prologue, const Walk& walk, bool* knows_stack_pointer);
  bool IsTrampoline(std::uint64_t pc);
  std::optional<Row> GuessRow(std::uint64_t pc);
  Result<void> Refresh();
  // Null when nothing is known about `pc`.
  const Row* FindRow(std::uint64_t pc);
  std::shared_ptr<const Function> FindFunction(std::uint64_t pc);
  // Nothing when no JIT says anything about `pc`.
  std::optional<Symbol> FindJitSymbol(std::uint64_t pc);

  pid_t pid_;                                      // 0 of a dead one
  std::unique_ptr<const process::Memory> memory_;  // on the heap: tables point to it
  FindFile find_file_;
  SymbolStore* symbols_;
  Modules modules_;
  JitCode jit_code_;
  CythonSources cython_;
  std::int64_t jit_read_ns_ = 0;
  std::int64_t refreshed_ns_ = 0;
  bool saw_unknown_code_ = false;
  std::unordered_map<std::uint64_t, std::optional<Row>> rows_;                    // by pc
  std::unordered_map<std::uint64_t, std::shared_ptr<const Function>> functions_;  // by pc
  std::unordered_map<std::uint64_t, std::shared_ptr<const Function>> by_start_;   // one per function
};

}  // namespace probing::unwind
