#include "unwind/unwinder.h"

#include <algorithm>
#include <array>

#include "unwind/demangle.h"
#include "unwind/prologue.h"
#include "unwind/step.h"

namespace probing::unwind {
namespace {

constexpr std::size_t kMaxCachedAddresses = 1 << 17;
// Some stacks always end in unknown code: no reason to read the mappings for each of them.
constexpr std::int64_t kRefreshIntervalNs = 100'000'000;

}  // namespace

const char* Describe(StackEnd end) {
  switch (end) {
    case StackEnd::kComplete:
      return "";
    case StackEnd::kNoUnwindInfo:
      return "code without unwind information";
    case StackEnd::kMissingRegister:
      return "its registers cannot be read now";
    case StackEnd::kDamaged:
      return "the stack leads nowhere";
    case StackEnd::kTooDeep:
      return "and more";
  }
  return "";
}

// Where a walk outward has got to.
struct Unwinder::Walk {
  const process::Memory* memory;
  Registers registers;
  bool interrupted = true;          // the pc is where it stands, not where a call returns to
  bool knows_stack_pointer = true;  // else it is a lower bound

  // False beyond the outermost frame. What was interrupted at 0 is a frame: it called a null pointer.
  bool HasFrame() const { return registers.Has(kReturnAddress) && (pc() != 0 || interrupted); }
  std::uint64_t pc() const { return registers.Get(kReturnAddress); }
  // A call may be a function's last instruction: what follows belongs to somebody else.
  std::uint64_t place() const { return interrupted ? pc() : pc() - 1; }
};

Result<Unwinder> Unwinder::Attach(pid_t pid, SymbolStore& symbols) {
  Unwinder unwinder(pid, std::make_unique<process::ProcessMemory>(pid), FilesOfProcess(pid), symbols);
  RETURN_IF_ERROR(unwinder.Refresh());
  return unwinder;
}

Unwinder Unwinder::OfDead(std::unique_ptr<const process::Memory> memory, process::Maps maps,
                          FindFile find_file, SymbolStore& symbols) {
  Unwinder unwinder(0, std::move(memory), std::move(find_file), symbols);
  unwinder.modules_.Update(std::move(maps));
  return unwinder;
}

NativeStack Unwinder::ReadDead(const Registers& registers, const ReadOptions& options) {
  Capture capture;  // without a copy: nothing changes any more
  capture.registers = registers;
  return WalkStack(capture, options);
}

Result<void> Unwinder::Refresh() {
  ASSIGN_OR_RETURN(process::Maps maps, process::Maps::Read(pid_));
  modules_.Update(std::move(maps));
  refreshed_ns_ = MonotonicNs();
  rows_.clear();
  functions_.clear();
  by_start_.clear();
  return {};
}

Result<NativeStack> Unwinder::Read(pid_t tid, const ReadOptions& options) {
  saw_unknown_code_ = false;
  if (rows_.size() > kMaxCachedAddresses || functions_.size() > kMaxCachedAddresses)
    RETURN_IF_ERROR(Refresh());
  auto stack = TryToRead(tid, options);
  const bool may_be_new = !stack.ok() ? stack.error().code == Code::kFailed : saw_unknown_code_;
  if (!may_be_new || MonotonicNs() - refreshed_ns_ < kRefreshIntervalNs) return stack;
  // A library that was loaded, or a thread that was started, since the mappings were read.
  RETURN_IF_ERROR(Refresh());
  return TryToRead(tid, options);
}

Result<NativeStack> Unwinder::TryToRead(pid_t tid, const ReadOptions& options) {
  auto resting = CaptureResting(pid_, tid, *memory_, modules_.maps(), options.while_still);
  if (resting.ok()) {
    NativeStack stack = WalkStack(*resting, options);
    if (stack.end != StackEnd::kMissingRegister || resting->loses_time_when_held) return stack;
  }
  auto held = CaptureHeld(tid, *memory_, modules_.maps(), options.while_still,
                          Deadline::AfterMs(options.deadline_ms));
  if (held.ok()) return WalkStack(*held, options);
  // A debugger has it, or it waits for the disk: better some frames than none.
  resting = CaptureResting(pid_, tid, *memory_, modules_.maps(), options.while_still);
  if (resting.ok()) return WalkStack(*resting, options);
  return std::move(held.error());
}

NativeStack Unwinder::WalkStack(const Capture& capture, const ReadOptions& options) {
  const CapturedMemory memory(capture, *memory_);
  Walk walk{&memory, capture.registers};
  NativeStack stack;
  stack.held_ns = capture.held_ns;
  while (true) {
    stack.frames.push_back(
        {walk.pc(), walk.registers.Get(kStackPointer), FindFunction(walk.place()), walk.interrupted, {}});
    if (stack.frames.size() >= options.max_depth) {
      stack.end = StackEnd::kTooDeep;
      return stack;
    }
    stack.end = TakeStep(walk);
    if (stack.end != StackEnd::kComplete || !walk.HasFrame()) return stack;
  }
}

// kComplete: it was taken, or there is no caller.
StackEnd Unwinder::TakeStep(Walk& walk) {
  const std::uint64_t stack_pointer = walk.registers.Get(kStackPointer);
  const Row* row = FindRow(walk.place());
  const bool is_trampoline = arch::kTrampolineIsInVdso && IsTrampoline(walk.pc());
  const bool is_signal_frame = is_trampoline || (row != nullptr && row->is_signal_frame);
  const bool has_table = is_trampoline || (row != nullptr && !row->is_guessed);
  bool knows_stack_pointer = true;
  const Result<Registers> caller = [&] {
    if (is_trampoline) return StepOverSignalFrame(walk.registers, *walk.memory);
    const bool needs_stack_pointer =
        row != nullptr && !row->cfa_is_expression && row->cfa_register == kStackPointer;
    if (has_table && (walk.knows_stack_pointer || !needs_stack_pointer))
      return StepByRules(*row, walk.registers, *walk.memory);
    return StepByGuess(needs_stack_pointer && !walk.knows_stack_pointer ? nullptr : row, walk,
                       &knows_stack_pointer);
  }();
  if (!caller.ok()) {
    if (caller.error().code == Code::kNotFound) return StackEnd::kMissingRegister;
    return has_table ? StackEnd::kDamaged : StackEnd::kNoUnwindInfo;
  }
  Walk next{walk.memory, *caller, is_signal_frame, knows_stack_pointer};
  if (next.HasFrame()) {
    // Stacks grow downward, so every step leads up; that also makes the walk end. A signal handler
    // may have a stack of its own.
    const bool leads_up =
        caller->Has(kStackPointer) &&
        (caller->Get(kStackPointer) > stack_pointer || is_signal_frame ||
         (arch::kCallsKeepStackPointer && walk.interrupted && caller->Get(kStackPointer) == stack_pointer));
    if (!leads_up) return StackEnd::kDamaged;
    if (!is_signal_frame && !modules_.FindCode(next.place())) {
      saw_unknown_code_ = true;
      return has_table ? StackEnd::kDamaged : StackEnd::kNoUnwindInfo;
    }
  }
  walk = next;
  return StackEnd::kComplete;
}

// Without a table: what the prologue says, else frame pointers, each believed only when it leads to
// a place after a call.
Result<Registers> Unwinder::StepByGuess(const Row* prologue, const Walk& walk, bool* knows_stack_pointer) {
  const auto check = [&](Result<Registers> caller) -> Result<Registers> {
    if (!caller.ok() || !caller->Has(kReturnAddress)) return caller;
    const std::uint64_t pc = caller->Get(kReturnAddress);
    if (IsAfterCall(*memory_, pc) || (arch::kTrampolineIsInVdso && IsTrampoline(pc))) return caller;
    return Error{Code::kFailed, "no caller where one should be", ""};
  };
  const auto code = modules_.FindCode(walk.pc());
  if (walk.interrupted && (!code || code->module == nullptr)) {
    // A call to a wrong address, or one of the small stubs that libffi and others generate.
    auto caller = check(StepFromCall(walk.registers, *walk.memory));
    if (caller.ok()) return caller;
  }
  // Only a function that has called none has its return address where a call puts it.
  const bool lacks_return_address = arch::kCallsKeepStackPointer && !walk.interrupted &&
                                    prologue != nullptr &&
                                    prologue->registers[kReturnColumn].kind == Rule::Kind::kUnspecified;
  if (prologue != nullptr && !lacks_return_address) {
    auto caller = check(StepByRules(*prologue, walk.registers, *walk.memory));
    if (caller.ok() || caller.error().code == Code::kNotFound) return caller;
  }
  // Where every function makes a frame record, none is that of the outermost one.
  const bool is_outermost = arch::kCallsKeepStackPointer && !walk.interrupted &&
                            walk.registers.Has(kFramePointer) && walk.registers.Get(kFramePointer) == 0;
  if (is_outermost) return Registers();
  *knows_stack_pointer = arch::kFramePointerTellsStackPointer;
  return check(StepByFramePointer(walk.registers, *walk.memory));
}

bool Unwinder::IsTrampoline(std::uint64_t pc) {
  std::array<char, arch::kSignalTrampoline.size()> code{};
  const auto place = modules_.FindCode(pc);
  return place && place->module != nullptr && place->module->name() == "[vdso]" &&
         memory_->Read({pc}, std::as_writable_bytes(std::span(code))).ok() &&
         std::string_view(code.data(), code.size()) == arch::kSignalTrampoline;
}

void Unwinder::AddLines(NativeStack& stack) {
  for (NativeFrame& frame : stack.frames) {
    const auto code = modules_.FindCode(frame.place());
    if (code && code->module != nullptr)
      frame.places = code->module->FindLines(frame.place(), find_file_, *memory_);
    for (SourcePlace& place : frame.places) cython_.Translate(pid_, place);
  }
}

std::optional<Row> Unwinder::GuessRow(std::uint64_t pc) {
  const auto function = FindFunction(pc);
  if (function->name.empty() || pc < function->start) return std::nullopt;
  std::vector<std::byte> code(std::min<std::uint64_t>(pc - function->start, kMaxPrologueBytes));
  if (!memory_->Read({function->start}, code).ok()) return std::nullopt;
  auto row = RowFromPrologue(code);
  return row.ok() ? std::optional(std::move(*row)) : std::nullopt;
}

const Row* Unwinder::FindRow(std::uint64_t pc) {
  const auto [entry, is_new] = rows_.try_emplace(pc);
  if (is_new) {
    const auto code = modules_.FindCode(pc);
    if (!code) saw_unknown_code_ = true;
    if (code && code->module != nullptr) {
      auto row = code->module->FindRow(pc, *memory_);
      entry->second = row.ok() ? std::optional(std::move(*row)) : GuessRow(pc);
    } else if (code && FindJitSymbol(pc)) {
      auto row = jit_code_.FindRow(pc, *memory_);
      entry->second = row.ok() ? std::optional(std::move(*row)) : GuessRow(pc);
    }
  }
  return entry->second ? &*entry->second : nullptr;
}

std::optional<Symbol> Unwinder::FindJitSymbol(std::uint64_t pc) {
  if (auto known = jit_code_.FindSymbol(pc)) return known;
  if (MonotonicNs() - jit_read_ns_ < kRefreshIntervalNs) return std::nullopt;
  jit_code_.Update(pid_, modules_, find_file_, *memory_);
  jit_read_ns_ = MonotonicNs();
  return jit_code_.FindSymbol(pc);
}

std::shared_ptr<const Function> Unwinder::FindFunction(std::uint64_t pc) {
  std::shared_ptr<const Function>& known = functions_[pc];
  if (known != nullptr) return known;
  Function function;
  const auto code = modules_.FindCode(pc);
  if (code && code->module != nullptr) {
    function.module = code->module->name();
    function.start = code->module->start();
    if (auto symbol = code->module->FindSymbol(pc, find_file_, *memory_, *symbols_)) {
      function.start = symbol->start;
      std::shared_ptr<const Function>& same = by_start_[symbol->start];
      if (same == nullptr) {
        function.name = Demangle(symbol->name);
        same = std::make_shared<const Function>(std::move(function));
      }
      return known = same;
    }
  }
  if (code && code->module == nullptr) {
    if (const auto symbol = FindJitSymbol(pc)) {
      function.start = symbol->start;
      function.name = Demangle(symbol->name);
    }
  }
  return known = std::make_shared<const Function>(std::move(function));
}

}  // namespace probing::unwind
