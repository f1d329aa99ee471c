#include "cpython/offsets.h"

#include <array>

namespace probing::cpython {
namespace {

// Printed by a program of offsetof() lines compiled against the headers of 3.6.15, 3.7.16,
// 3.8.18, 3.9.18, 3.10.13, 3.11.7 and 3.12.1 for x86-64 (include/ and include/internal/, with
// Py_BUILD_CORE). Aarch64 agrees except in runtime.current_thread, which is checked when used.
constexpr Offsets Base(int minor) {
  Offsets o;
  o.thread.next = 8;
  o.thread.interpreter = 16;
  o.interpreter.threads_head = 8;
  if (minor <= 10) {
    o.thread.frame = 24;
    o.every_frame_is_entry = true;
    o.frame.previous = 24;
    o.frame.code = 32;
    o.instruction_index_unit = minor == 10 ? 2 : 1;
  } else {
    o.code.qualified_name = 128;
    o.frame.instruction = 56;
    o.c_frame_current = minor == 11 ? 8 : 0;
    o.thread.c_frame = 56;
  }
  o.line_table_format = minor <= 9    ? LineTableFormat::kLnotab
                        : minor == 10 ? LineTableFormat::kLineTable
                                      : LineTableFormat::kLocations;
  return o;
}

// co_varnames, co_freevars and co_cellvars follow each other.
constexpr void SetLocalNames(Offsets& o, std::uint32_t first) {
  o.code.local_names = first;
  o.code.free_names = first + 8;
  o.code.cell_names = first + 16;
}

// co_argcount, co_kwonlyargcount, co_flags.
constexpr void SetArguments(Offsets& o, std::uint32_t count, std::uint32_t keyword_only,
                            std::uint32_t flags) {
  o.code.argument_count = count;
  o.code.keyword_count = keyword_only;
  o.code.flags = flags;
}

constexpr Offsets Python36() {
  Offsets o = Base(6);
  o.interpreter.modules = 16;
  o.thread.thread_id = 152;
  o.frame.generator = 112;
  o.frame.executing = 132;
  o.frame.instruction = 120;
  o.code = {.filename = 96, .name = 104, .line_table = 112, .first_line = 36};
  o.frame.locals = 376;
  SetLocalNames(o, 64);
  o.frame.stack_pointer = 72;
  o.code.bytecode_object = 40;
  SetArguments(o, 16, 20, 32);
  return o;
}

constexpr Offsets Python37() {
  Offsets o = Base(7);
  o.interpreter.modules = 40;
  o.runtime = {.interpreters_head = 24, .current_thread = 1480};
  o.thread.thread_id = 176;
  o.frame.generator = 96;
  o.frame.executing = 116;
  o.frame.instruction = 104;
  o.code = {.filename = 96, .name = 104, .line_table = 112, .first_line = 36};
  o.frame.locals = 360;
  SetLocalNames(o, 64);
  o.frame.stack_pointer = 72;
  o.code.bytecode_object = 40;
  o.interpreter.id = 16;
  o.runtime.collecting = 632;
  o.runtime.generations = 352;
  o.collector = {.head = 32, .generation = 48};
  SetArguments(o, 16, 20, 32);
  return o;
}

constexpr Offsets Python38() {
  Offsets o = Base(8);
  o.interpreter.modules = 56;
  o.runtime = {.interpreters_head = 32, .current_thread = 1368};
  o.thread.thread_id = 176;
  o.frame.generator = 96;
  o.frame.executing = 116;
  o.frame.instruction = 104;
  o.code = {.filename = 104, .name = 112, .line_table = 120, .first_line = 40};
  o.frame.locals = 360;
  SetLocalNames(o, 72);
  o.frame.stack_pointer = 72;
  o.code.bytecode_object = 48;
  o.interpreter.id = 16;
  o.runtime.collecting = 544;
  o.runtime.generations = 368;
  SetArguments(o, 16, 24, 36);
  return o;
}

constexpr Offsets Python39() {
  Offsets o = Python38();
  o.interpreter.modules = 856;
  o.runtime.current_thread = 568;
  o.interpreter.id = 24;
  o.runtime.collecting = kAbsent;
  o.runtime.generations = kAbsent;
  o.interpreter.collecting = 816;
  o.interpreter.generations = 640;
  return o;
}

constexpr Offsets Python310() {
  Offsets o = Base(10);
  o.interpreter.modules = 856;
  o.runtime = {.interpreters_head = 32, .current_thread = 568};
  o.thread.thread_id = 176;
  o.frame.generator = 88;
  o.frame.executing = 108;
  o.executing_state = 0;  // FRAME_EXECUTING
  o.unwinding_state = 2;  // FRAME_UNWINDING
  o.frame.instruction = 96;
  o.code = {.filename = 104, .name = 112, .line_table = 120, .first_line = 40};
  o.frame.locals = 352;
  SetLocalNames(o, 72);
  o.frame.value_stack = 64;
  o.frame.stack_count = 80;
  o.code.bytecode_object = 48;
  o.interpreter.id = 24;
  o.interpreter.collecting = 816;
  o.interpreter.generations = 640;
  SetArguments(o, 16, 24, 36);
  return o;
}

constexpr Offsets Python311() {
  Offsets o = Base(11);
  o.runtime = {.interpreters_head = 40, .current_thread = 576};
  o.interpreter.modules = 888;
  o.interpreter.threads_head = 16;
  o.thread.thread_id = 152;
  o.thread.native_thread_id = 160;
  o.frame.previous = 48;
  o.frame.code = 32;
  o.frame.entry = 68;
  o.frame.owner = 69;
  o.code = {.filename = 112,
            .name = 120,
            .qualified_name = 128,
            .line_table = 136,
            .first_line = 72,
            .first_traceable = 168,
            .bytecode = 184};
  o.frame.locals = 72;
  o.code.local_names = 96;
  o.code.local_kinds = 104;
  o.frame.stack_count = 64;
  o.interpreter.id = 48;
  o.interpreter.collecting = 848;
  o.interpreter.generations = 672;
  SetArguments(o, 56, 64, 48);
  return o;
}

constexpr Offsets Python312() {
  Offsets o = Base(12);
  o.runtime.interpreters_head = 40;
  o.interpreter.threads_head = 72;
  o.interpreter.modules = 944;
  o.interpreter.gil = 384;
  o.gil = {.last_holder = 8, .locked = 16};
  o.thread.thread_id = 136;
  o.thread.native_thread_id = 144;
  o.frame.previous = 8;
  o.frame.code = 0;
  o.frame.owner = 70;
  o.code = {.filename = 112,
            .name = 120,
            .qualified_name = 128,
            .line_table = 136,
            .first_line = 68,
            .first_traceable = 176,
            .bytecode = 192};
  o.unicode.ascii_data = 40;
  o.unicode.other_data = 56;
  o.first_internal_owner = 3;
  o.frame.locals = 72;
  o.frame.stack_count = 64;
  o.code.local_names = 96;
  o.code.local_kinds = 104;
  o.interpreter.id = 8;
  o.interpreter.collecting = 312;
  o.interpreter.generations = 136;
  SetArguments(o, 52, 60, 48);
  return o;
}

constexpr int kFirstMinor = 6;
constexpr std::array<Offsets, 7> kTables = {Python36(),  Python37(),  Python38(), Python39(),
                                            Python310(), Python311(), Python312()};

}  // namespace

Result<Offsets> KnownOffsets(const Version& version) {
  const int index = version.minor - kFirstMinor;
  if (version.major != 3 || index < 0 || index >= static_cast<int>(kTables.size())) {
    return Error{Code::kFailed, "cannot read the stacks of Python " + version.ToText(),
                 "Python 3.6 to 3.14 are supported"};
  }
  return kTables[static_cast<std::size_t>(index)];
}

}  // namespace probing::cpython
