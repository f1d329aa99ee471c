// A native stack, as plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace probing::unwind {

struct Function {
  std::string name;         // demangled; "" when unknown
  std::string module;       // "libtorch_cpu.so"; "" for code that belongs to no file (JIT)
  std::uint64_t start = 0;  // in the target; of the module when the function is unknown, 0 without one
};

// Where a function has got to, from debug information.
struct SourcePlace {
  std::string function;    // demangled; "" when unknown
  std::string file;        // "" when unknown
  std::uint32_t line = 0;  // 0 when unknown
};

struct NativeFrame {
  std::uint64_t address = 0;                 // the instruction being executed, or the one after the call
  std::uint64_t stack_pointer = 0;           // the frame's part of the stack goes from here to the next one's
  std::shared_ptr<const Function> function;  // shared with the unwinder's cache; never null
  bool interrupted = true;                   // `address` is where it stands, not where a call returns to
  // Innermost first: functions that were inlined here, then the function itself. Empty unless asked for
  // (Unwinder::AddLines), or when there is no debug information.
  std::vector<SourcePlace> places;

  std::uint64_t offset() const { return address - function->start; }
  // A call may be a function's last instruction: what follows belongs to somebody else.
  std::uint64_t place() const { return interrupted ? address : address - 1; }
};

// Why there are no more frames.
enum class StackEnd : std::uint8_t {
  kComplete,         // it is the outermost frame
  kNoUnwindInfo,     // code nobody describes, and no frame pointers
  kMissingRegister,  // the thread was not held, and the stack pointer alone does not lead further
  kDamaged,          // the next step leads nowhere
  kTooDeep,
};

// "code without unwind information"…; "" for a complete stack.
const char* Describe(StackEnd end);

struct NativeStack {
  std::vector<NativeFrame> frames;  // innermost first
  StackEnd end = StackEnd::kComplete;
  std::int64_t held_ns = 0;  // how long the thread was stopped for this
};

}  // namespace probing::unwind
