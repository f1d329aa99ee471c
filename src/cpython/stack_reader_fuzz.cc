// A small Python 3.6 to 3.12 (the first byte chooses) in which any word may be wrong: lists of
// interpreters and threads, the GIL, chains of frames, code objects, variables.
#include <cstdlib>

#include "cpython/event_loop.h"
#include "cpython/fuzz_patches.h"
#include "cpython/gil_switches.h"
#include "cpython/stack_reader.h"
#include "cpython/states.h"
#include "cpython/tasks.h"
#include "cpython/thread_names.h"

namespace probing::cpython {
namespace {

using process::RemoteAddress;

class FakePython {
 public:
  explicit FakePython(int minor) {
    location_.version = {3, minor, 1};
    location_.offsets = *KnownOffsets(location_.version);
    location_.code_type = memory_.Allocate(16);
    location_.first_interpreter = memory_.Allocate(16);
    location_.current_thread = memory_.Allocate(16);
    const RemoteAddress interpreter = memory_.Allocate(1024);
    memory_.Write(location_.first_interpreter, interpreter);
    RemoteAddress next;
    for (int i = 0; i < 2; ++i) next = MakeThread(interpreter, next);
    memory_.Write(interpreter + location_.offsets.interpreter.threads_head, next);
    memory_.Write(location_.current_thread, next);
  }

  FakeMemory& memory() { return memory_; }
  const Location& location() const { return location_; }
  // Of the thread that was made last.
  RemoteAddress thread() const { return thread_; }

 private:
  RemoteAddress MakeThread(RemoteAddress interpreter, RemoteAddress next) {
    const Offsets::Thread& fields = location_.offsets.thread;
    thread_ = memory_.Allocate(512);
    memory_.Write(thread_ + fields.interpreter, interpreter);
    memory_.Write(thread_ + fields.next, next);
    RemoteAddress frame;
    for (int i = 0; i < 4; ++i) frame = MakeFrame(MakeCode(), frame);
    if (fields.frame != kAbsent) {
      memory_.Write(thread_ + fields.frame, frame);
    } else {
      const RemoteAddress record = memory_.Allocate(64);
      memory_.Write(record + location_.offsets.c_frame_current, frame);
      memory_.Write(thread_ + fields.c_frame, record);
    }
    return thread_;
  }

  RemoteAddress MakeStr(std::string_view text) {
    const RemoteAddress at = memory_.Allocate(48 + text.size());
    memory_.Write(at + 16, static_cast<std::int64_t>(text.size()));
    memory_.Write(at + 32, std::uint32_t{(1 | 8 | 16) << 2});
    memory_.Write(at + 48, text);
    return at;
  }

  RemoteAddress MakeCode() {
    const RemoteAddress table = memory_.Allocate(48);
    memory_.Write(table + 16, std::int64_t{4});
    memory_.Write(table + 32, std::string_view("\x08\x01\x08\x01", 4));
    const RemoteAddress names = memory_.Allocate(48);
    memory_.Write(names + 16, std::int64_t{2});
    memory_.Write(names + 24, MakeStr("end_time"));
    memory_.Write(names + 32, MakeStr("loop"));
    const RemoteAddress kinds = memory_.Allocate(48);
    memory_.Write(kinds + 16, std::int64_t{2});
    memory_.Write(kinds + 32, std::string_view("\x20\x40", 2));
    const RemoteAddress code = memory_.Allocate(256);
    const Offsets::Code& fields = location_.offsets.code;
    memory_.Write(code + location_.offsets.object_type, location_.code_type);
    memory_.Write(code + fields.name, MakeStr("f"));
    if (fields.qualified_name != kAbsent) memory_.Write(code + fields.qualified_name, MakeStr("A.f"));
    memory_.Write(code + fields.filename, MakeStr("a.py"));
    memory_.Write(code + fields.line_table, table);
    memory_.Write(code + fields.first_line, std::int32_t{7});
    for (const std::uint32_t field : {fields.local_names, fields.cell_names, fields.free_names})
      if (field != kAbsent) memory_.Write(code + field, names);
    if (fields.local_kinds != kAbsent) memory_.Write(code + fields.local_kinds, kinds);
    return code;
  }

  RemoteAddress MakeFrame(RemoteAddress code, RemoteAddress back) {
    const Offsets::Frame& fields = location_.offsets.frame;
    const RemoteAddress frame = memory_.Allocate(512);
    memory_.Write(frame + fields.code, code);
    memory_.Write(frame + fields.previous, back);
    if (location_.offsets.instruction_index_unit == 0) {
      memory_.Write(frame + fields.instruction, code + (location_.offsets.code.bytecode + 4));
    } else {
      memory_.Write(frame + fields.instruction, std::int32_t{2});
      memory_.Write(frame + fields.executing, location_.offsets.executing_state);
    }
    if (fields.locals != kAbsent) memory_.Write(frame + fields.locals, MakeStr("a local"));
    return frame;
  }

  FakeMemory memory_{Patches::kMemoryBytes};
  Location location_;
  RemoteAddress thread_;
};

void ReadAll(FakePython& python) {
  const FakeMemory& memory = python.memory();
  const auto states = ReadStates(memory, python.location());
  StackReader reader(memory, python.location());
  EventLoopReader loops(memory, python.location());
  GilSwitches switches;
  const auto read = [&](RemoteAddress thread) {
    Stack stack = reader.Read(thread, {.max_depth = 100, .attempts = 3});
    if (stack.torn && !stack.frames.empty()) std::abort();  // never a guess
    // As if the second frame were the one of an event loop.
    if (stack.frames.size() > 1) {
      stack.frames[1].function = "BaseEventLoop._run_once";
      stack.frames[1].file = "/lib/asyncio/base_events.py";
    }
    (void)loops.Read(thread, stack.frames, stack.raw);
    reader.BeginLocals(kDefaultValueDepth);
    if (!stack.torn) reader.AddLocals(thread, 100, 3, stack);
  };
  read(python.thread());
  if (!states.ok()) return;
  for (const InterpreterState& interpreter : *states) {
    (void)FindGilHolder(memory, python.location(), interpreter);
    (void)switches.Read(memory, python.location(), interpreter);
    std::vector<RemoteAddress> threads;
    for (const ThreadState& thread : interpreter.threads) {
      threads.push_back(thread.address);
      read(thread.address);
    }
    for (const Stack& stack : reader.ReadMany(threads, {.max_depth = 100}))
      if (stack.torn && !stack.frames.empty()) std::abort();
    (void)ReadThreadNames(memory, python.location(), interpreter.address);
    (void)TaskReader(memory, python.location(), process::Maps::Of({}), reader).Read(interpreter);
    if (interpreter.threads.size() > 8) return;
  }
  (void)AreStill(memory, python.location(), *states, Changes::kAll);
}

}  // namespace
}  // namespace probing::cpython

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::cpython;
  if (size == 0) return 0;
  FakePython python(6 + data[0] % 7);
  const Patches patches({data + 1, size - 1}, python.memory());
  ReadAll(python);
  return 0;
}
