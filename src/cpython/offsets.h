// Where the fields are that a stack is read from, for one build of CPython.
//
// Up to 3.12 the layout follows from the minor version (KnownOffsets). From 3.13 on the
// interpreter carries its own table, _Py_DebugOffsets, at the start of _PyRuntime
// (ReadDebugOffsets); that one also covers free-threaded builds. All numbers are bytes.
#pragma once

#include <cstdint>

#include "cpython/version.h"
#include "process/memory.h"

namespace probing::cpython {

inline constexpr std::uint32_t kAbsent = 0xffffffff;  // this version has no such field

inline constexpr std::uint8_t kNoOwner = 0xff;  // up to 3.11 no frame is internal

enum class LineTableFormat : std::uint8_t {
  kOldLnotab,  // up to 3.5: pairs of (bytes, lines), both unsigned
  kLnotab,     // 3.6 to 3.9: pairs of (bytes, signed lines)
  kLineTable,  // 3.10: pairs of (bytes, signed lines), where -128 means "no line"
  kLocations,  // since 3.11: entries of varying length, with columns
};

struct Offsets {
  struct Runtime {
    std::uint32_t interpreters_head = kAbsent;
    std::uint32_t current_thread = kAbsent;  // 3.7 to 3.11: who has the GIL, or null
    std::uint32_t collecting = kAbsent;      // 3.7 and 3.8: an int, whether garbage is collected
    std::uint32_t generations = kAbsent;     // 3.7 and 3.8: as in Interpreter
  } runtime;
  struct Interpreter {
    std::uint32_t next = 0;
    std::uint32_t threads_head = kAbsent;
    std::uint32_t gil = kAbsent;         // since 3.12: pointer to the GIL this interpreter uses
    std::uint32_t modules = kAbsent;     // pointer to the dict sys.modules
    std::uint32_t id = kAbsent;          // since 3.7: a 64-bit number
    std::uint32_t collecting = kAbsent;  // since 3.9: an int, whether garbage is collected
    // 3.9 to 3.13: three lists of the objects that may be garbage, the youngest first, and the list of those
    // that gc.freeze() spares.
    std::uint32_t generations = kAbsent;
    std::uint32_t collector = kAbsent;  // 3.14: the collector's state, whose lists come before `collecting`
  } interpreter;
  struct Collector {
    std::uint32_t head = 16;        // of a list, and what precedes an object in it
    std::uint32_t generation = 24;  // a list and two ints
  } collector;
  struct Gil {
    std::uint32_t last_holder = kAbsent;
    std::uint32_t locked = kAbsent;
    std::uint32_t enabled = kAbsent;  // free-threaded builds only
  } gil;
  struct Thread {
    std::uint32_t next = 8;
    std::uint32_t interpreter = 16;
    std::uint32_t frame = kAbsent;    // points to the innermost frame, or...
    std::uint32_t c_frame = kAbsent;  // ...3.11 and 3.12: to a record on the C stack which does
    std::uint32_t thread_id = kAbsent;
    std::uint32_t native_thread_id = kAbsent;
  } thread;
  std::uint32_t c_frame_current = kAbsent;  // in the record just mentioned
  struct Frame {
    std::uint32_t previous = kAbsent;
    std::uint32_t code = kAbsent;
    std::uint32_t instruction = kAbsent;
    std::uint32_t owner = kAbsent;           // since 3.11: what the frame is part of
    std::uint32_t generator = kAbsent;       // up to 3.10: the generator it is part of, or null
    std::uint32_t executing = kAbsent;       // up to 3.10: a byte that says whether it runs
    std::uint32_t entry = kAbsent;           // 3.11: a byte, 1 when it was called from C
    std::uint32_t bytecode_index = kAbsent;  // 3.14t: which copy of the bytecode it runs
    std::uint32_t locals = kAbsent;          // an array of references, one for each name, then the stack
    std::uint32_t stack_count = kAbsent;     // 3.10 to 3.13: an int, how many there are in all, or...
    std::uint32_t stack_pointer = kAbsent;   // ...up to 3.9 and 3.14: a pointer behind the last one
    std::uint32_t value_stack = kAbsent;     // 3.10: where those begin that are counted, else at `locals`
  } frame;
  struct Code {
    std::uint32_t filename = kAbsent;
    std::uint32_t name = kAbsent;
    std::uint32_t qualified_name = kAbsent;
    std::uint32_t line_table = kAbsent;
    std::uint32_t first_line = kAbsent;
    std::uint32_t first_traceable = kAbsent;
    std::uint32_t bytecode = kAbsent;         // since 3.11: it is a part of the code object
    std::uint32_t bytecode_copies = kAbsent;  // 3.14t: one copy per thread, or null
    std::uint32_t bytecode_object = kAbsent;  // up to 3.10: a pointer to a bytes object with it
    std::uint32_t local_names = kAbsent;      // a tuple of all names since 3.11, before...
    std::uint32_t local_kinds = kAbsent;      // (since 3.11: a byte for each of them)
    std::uint32_t cell_names = kAbsent;       // ...those that other functions use too...
    std::uint32_t free_names = kAbsent;       // ...and those of functions around it follow
    std::uint32_t argument_count = kAbsent;   // an int; the first names are those of arguments,
    std::uint32_t keyword_count = kAbsent;    // an int; then come those that only have names,
    std::uint32_t flags = kAbsent;            // an int; then *args and **kwargs, if it says so
  } code;
  struct Unicode {
    std::uint32_t length = 16;
    std::uint32_t state = 32;
    std::uint32_t ascii_data = 48;
    std::uint32_t other_data = 72;
    std::uint32_t kind_shift = 2;  // bits in `state` below the kind
  } unicode;
  struct Bytes {
    std::uint32_t size = 16;
    std::uint32_t data = 32;
  } bytes;
  std::uint32_t object_type = 8;

  LineTableFormat line_table_format = LineTableFormat::kLnotab;
  // Up to 3.10 `frame.instruction` is an int index, later a pointer into the bytecode. An index
  // counts bytes up to 3.9 and 2-byte units in 3.10.
  std::uint32_t instruction_index_unit = 0;  // bytes per count; 0: it is a pointer
  // Frames whose owner is this or more belong to the interpreter's C code, not to a program.
  std::uint8_t first_internal_owner = kNoOwner;
  // Values of `frame.executing` in a frame that runs: a flag up to 3.9, an enum in 3.10.
  std::int8_t executing_state = 1;
  std::int8_t unwinding_state = 1;
  bool every_frame_is_entry = false;  // up to 3.10: each has its own run of the interpreter's loop
  bool free_threaded = false;
};

// Fails, naming the version, when there is no table for it.
Result<Offsets> KnownOffsets(const Version& version);

// Reads and range-checks the table at the start of `runtime`. kNotFound: there is none.
struct SelfDescription {
  Version version;
  Offsets offsets;
};
Result<SelfDescription> ReadDebugOffsets(const process::Memory& memory, process::RemoteAddress runtime);

}  // namespace probing::cpython
