// Reads _Py_DebugOffsets, the description of itself that an interpreter carries since 3.13.
// Its layout is fixed for a minor version only, so each has a mirror here.

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>

#include "cpython/newest_version.h"
#include "cpython/offsets.h"

namespace probing::cpython {
namespace {

struct Head {
  std::array<char, 8> cookie;
  std::uint64_t version;
  std::uint64_t free_threaded;
};
static_assert(sizeof(Head) == 24);

struct Object {  // also tuple, list and others which are not used here: some words
  std::uint64_t size, type;
};
struct RuntimeState {
  std::uint64_t size, finalizing, interpreters_head;
};
struct ThreadState {
  std::uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk, status;
};
struct GilState {
  std::uint64_t ceval_gil, gil, enabled_in_gil, locked, holder;
};
struct BytesObject {
  std::uint64_t size, ob_size, ob_sval;
};
struct UnicodeObject {
  std::uint64_t size, state, length, asciiobject_size;
};

struct GcState {
  std::uint64_t size, collecting;
};

struct Table313 {
  Head head;
  RuntimeState runtime;
  struct {
    std::uint64_t size, id, next, threads_head, gc, modules, sysdict, builtins;
    GilState gil;
  } interp;
  ThreadState thread;
  struct {
    std::uint64_t size, previous, executable, instr_ptr, localsplus, owner;
  } frame;
  struct {
    std::uint64_t size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames,
        localspluskinds, bytecode;
  } code;
  Object object;
  std::array<std::uint64_t, 4 + 3 + 3 + 3 + 2 + 3> type_tuple_list_dict_float_long;
  BytesObject bytes;
  UnicodeObject unicode;
  GcState gc;
};

struct Table314 {
  Head head;
  RuntimeState runtime;
  struct {
    std::uint64_t size, id, next, threads_head, threads_main, gc, modules, sysdict, builtins;
    GilState gil;
    std::uint64_t code_object_generation, tlbc_generation;
  } interp;
  ThreadState thread;
  struct {
    std::uint64_t size, previous, executable, instr_ptr, localsplus, owner, stackpointer, tlbc_index;
  } frame;
  struct {
    std::uint64_t size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames,
        localspluskinds, bytecode, tlbc;
  } code;
  Object object;
  std::array<std::uint64_t, 4 + 3 + 3 + 4 + 3 + 2 + 3> type_tuple_list_set_dict_float_long;
  BytesObject bytes;
  UnicodeObject unicode;
  GcState gc;
};

struct Table315 {
  Head head;
  RuntimeState runtime;
  struct {
    std::uint64_t size, id, next, threads_head, threads_main, gc, modules, sysdict, builtins;
    GilState gil;
    std::uint64_t code_object_generation, tlbc_generation;
  } interp;
  struct {
    std::uint64_t size, prev, next, interp, current_frame, base_frame, last_profiled_frame,
        last_profiled_frame_seq, thread_id, native_thread_id, datastack_chunk, status, holds_gil,
        gil_requested, current_exception, exc_state;
  } thread;
  std::uint64_t exc_value;
  struct {
    std::uint64_t size, previous, executable, instr_ptr, localsplus, owner, stackpointer, tlbc_index;
  } frame;
  struct {
    std::uint64_t size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames,
        localspluskinds, bytecode, tlbc;
  } code;
  Object object;
  std::array<std::uint64_t, 6 + 2 + 3 + 3 + 4 + 3 + 2 + 3> type_heap_type_tuple_list_set_dict_float_long;
  BytesObject bytes;
  UnicodeObject unicode;
  std::uint64_t compactunicodeobject_size;
  GcState gc;
};

// What precedes the bytecode in a code object: `int _co_firsttraceable; void* co_extra;`.
constexpr std::uint64_t kFirstTraceableBeforeEnd = 16;
// `int co_flags, co_argcount, co_posonlyargcount, co_kwonlyargcount;`
constexpr std::uint64_t kFlagsBeforeCount = 4;
constexpr std::uint64_t kKeywordsAfterCount = 8;
// PyCompactUnicodeObject adds `utf8_length` and `utf8` to PyASCIIObject.
constexpr std::uint64_t kCompactExtra = 16;

// Of 3.13 with a GIL: the lists of the collector, before `int collecting`.
constexpr std::uint64_t kGenerationsBeforeCollecting = 176;
// Of 3.15 with a GIL: three lists, the frozen one and a pointer to the statistics.
constexpr std::uint64_t kGenerationsBeforeCollecting315 = 104;

constexpr std::uint64_t kMaxStateOffset = 1 << 22;   // the runtime holds a whole interpreter: 0.5 MB
constexpr std::uint64_t kMaxObjectOffset = 1 << 12;  // frames, code objects, strings: 0.2 kB

bool AllBelow(std::uint64_t limit, std::initializer_list<std::uint64_t> values) {
  return std::all_of(values.begin(), values.end(), [&](std::uint64_t v) { return v < limit; });
}

template <typename Table>
bool IsPlausible(const Table& t) {
  return AllBelow(kMaxStateOffset,
                  {t.runtime.interpreters_head, t.interp.next, t.interp.threads_head, t.interp.modules,
                   t.interp.id, t.interp.gc, t.gc.collecting, t.interp.gil.ceval_gil, t.interp.gil.gil,
                   t.interp.gil.locked, t.interp.gil.holder}) &&
         AllBelow(kMaxObjectOffset, {t.thread.next,
                                     t.thread.interp,
                                     t.thread.current_frame,
                                     t.thread.thread_id,
                                     t.thread.native_thread_id,
                                     t.frame.previous,
                                     t.frame.executable,
                                     t.frame.instr_ptr,
                                     t.frame.owner,
                                     t.frame.localsplus,
                                     t.code.localsplusnames,
                                     t.code.localspluskinds,
                                     t.code.filename,
                                     t.code.name,
                                     t.code.qualname,
                                     t.code.linetable,
                                     t.code.firstlineno,
                                     t.code.argcount,
                                     t.code.bytecode,
                                     t.object.type,
                                     t.bytes.ob_size,
                                     t.bytes.ob_sval,
                                     t.unicode.state,
                                     t.unicode.length,
                                     t.unicode.asciiobject_size,
                                     t.interp.gil.enabled_in_gil}) &&
         t.code.bytecode >= kFirstTraceableBeforeEnd && t.code.argcount >= kFlagsBeforeCount &&
         t.interp.gil.locked >= t.interp.gil.gil && t.interp.gil.holder >= t.interp.gil.gil &&
         AllBelow(kMaxObjectOffset,
                  {t.interp.gil.locked - t.interp.gil.gil, t.interp.gil.holder - t.interp.gil.gil});
}

std::uint32_t Narrow(std::uint64_t checked) { return static_cast<std::uint32_t>(checked); }

template <typename Table>
Offsets Convert(const Table& t) {
  Offsets o;
  o.free_threaded = t.head.free_threaded != 0;
  o.runtime.interpreters_head = Narrow(t.runtime.interpreters_head);
  o.interpreter = {.next = Narrow(t.interp.next),
                   .threads_head = Narrow(t.interp.threads_head),
                   .gil = Narrow(t.interp.gil.ceval_gil),
                   .modules = Narrow(t.interp.modules),
                   .id = Narrow(t.interp.id),
                   .collecting = Narrow(t.interp.gc + t.gc.collecting)};
  o.gil.last_holder = Narrow(t.interp.gil.holder - t.interp.gil.gil);
  o.gil.locked = Narrow(t.interp.gil.locked - t.interp.gil.gil);
  if (o.free_threaded) o.gil.enabled = Narrow(t.interp.gil.enabled_in_gil);
  o.thread.next = Narrow(t.thread.next);
  o.thread.interpreter = Narrow(t.thread.interp);
  o.thread.frame = Narrow(t.thread.current_frame);
  o.thread.thread_id = Narrow(t.thread.thread_id);
  o.thread.native_thread_id = Narrow(t.thread.native_thread_id);
  o.frame.previous = Narrow(t.frame.previous);
  o.frame.code = Narrow(t.frame.executable);
  o.frame.instruction = Narrow(t.frame.instr_ptr);
  o.frame.owner = Narrow(t.frame.owner);
  o.frame.locals = Narrow(t.frame.localsplus);
  o.code.filename = Narrow(t.code.filename);
  o.code.name = Narrow(t.code.name);
  o.code.qualified_name = Narrow(t.code.qualname);
  o.code.line_table = Narrow(t.code.linetable);
  o.code.first_line = Narrow(t.code.firstlineno);
  o.code.first_traceable = Narrow(t.code.bytecode - kFirstTraceableBeforeEnd);
  o.code.bytecode = Narrow(t.code.bytecode);
  o.code.local_names = Narrow(t.code.localsplusnames);
  o.code.local_kinds = Narrow(t.code.localspluskinds);
  o.code.argument_count = Narrow(t.code.argcount);
  o.code.keyword_count = Narrow(t.code.argcount + kKeywordsAfterCount);
  o.code.flags = Narrow(t.code.argcount - kFlagsBeforeCount);
  o.object_type = Narrow(t.object.type);
  o.bytes = {Narrow(t.bytes.ob_size), Narrow(t.bytes.ob_sval)};
  o.unicode.length = Narrow(t.unicode.length);
  o.unicode.state = Narrow(t.unicode.state);
  o.unicode.ascii_data = Narrow(t.unicode.asciiobject_size);
  o.unicode.other_data = Narrow(t.unicode.asciiobject_size + kCompactExtra);
  o.line_table_format = LineTableFormat::kLocations;
  o.first_internal_owner = 3;
  return o;
}

Error Damaged(const Version& version) {
  return {Code::kFailed, "the description Python " + version.ToText() + " carries of itself is damaged", ""};
}

Error Unreadable(const Version& version) {
  return {Code::kFailed, "cannot read the stacks of Python " + version.ToText(),
          "Python 3.4 to 3.15 are supported; a newer probing may know it"};
}

template <typename Table>
Result<SelfDescription> ConvertSince314(const Version& version, const Table& table) {
  if (!IsPlausible(table) || !AllBelow(kMaxObjectOffset, {table.frame.stackpointer})) return Damaged(version);
  SelfDescription description{version, Convert(table)};
  description.offsets.frame.stack_pointer = Narrow(table.frame.stackpointer);
  if (description.offsets.free_threaded) {
    // The bytecode is copied per thread, and `interned` is a byte of its own.
    if (table.code.tlbc < kFirstTraceableBeforeEnd ||
        !AllBelow(kMaxObjectOffset, {table.code.tlbc, table.frame.tlbc_index})) {
      return Damaged(version);
    }
    description.offsets.code.bytecode_copies = Narrow(table.code.tlbc);
    description.offsets.code.first_traceable = Narrow(table.code.tlbc - kFirstTraceableBeforeEnd);
    description.offsets.frame.bytecode_index = Narrow(table.frame.tlbc_index);
    description.offsets.unicode.kind_shift = 8;
  }
  return description;
}

// A version that came after this program. Each part of its table begins with the size of what it describes,
// so a table that has grown does not fit any more: then nothing of it is believed.
bool FitsItsOwnSizes(const Table315& t) {
  const auto within = [](std::uint64_t size, std::initializer_list<std::uint64_t> offsets) {
    return std::all_of(offsets.begin(), offsets.end(), [&](std::uint64_t one) { return one + 1 <= size; });
  };
  return t.runtime.size < kMaxStateOffset && t.interp.size < kMaxStateOffset &&
         within(t.runtime.size, {t.runtime.finalizing, t.runtime.interpreters_head}) &&
         within(t.interp.size, {t.interp.id, t.interp.next, t.interp.threads_head, t.interp.modules,
                                t.interp.gil.ceval_gil, t.interp.gil.gil}) &&
         within(t.thread.size, {t.thread.prev, t.thread.next, t.thread.interp, t.thread.current_frame,
                                t.thread.thread_id, t.thread.native_thread_id}) &&
         within(t.frame.size, {t.frame.previous, t.frame.executable, t.frame.instr_ptr, t.frame.localsplus,
                               t.frame.owner, t.frame.stackpointer}) &&
         within(t.code.size, {t.code.filename, t.code.name, t.code.qualname, t.code.linetable,
                              t.code.firstlineno, t.code.argcount, t.code.bytecode}) &&
         within(t.object.size, {t.object.type}) && within(t.bytes.size, {t.bytes.ob_size, t.bytes.ob_sval}) &&
         within(t.unicode.asciiobject_size, {t.unicode.state, t.unicode.length}) &&
         t.unicode.size >= t.unicode.asciiobject_size;
}

}  // namespace

Result<SelfDescription> ReadDebugOffsets(const process::Memory& memory, process::RemoteAddress runtime) {
  ASSIGN_OR_RETURN(const Head head, memory.ReadValue(runtime.As<Head>()));
  if (std::memcmp(head.cookie.data(), "xdebugpy", head.cookie.size()) != 0) {
    return Error{Code::kNotFound, "this Python carries no description of itself", ""};
  }
  const Version version = VersionFromHex(head.version);
  if (version.major == 3 && version.minor == 13) {
    ASSIGN_OR_RETURN(const Table313 table, memory.ReadValue(runtime.As<Table313>()));
    if (!IsPlausible(table) || table.frame.localsplus < 8) return Damaged(version);
    SelfDescription description{version, Convert(table)};
    description.offsets.frame.stack_count = Narrow(table.frame.localsplus - 8);
    if (!description.offsets.free_threaded && table.gc.collecting >= kGenerationsBeforeCollecting) {
      description.offsets.interpreter.generations =
          Narrow(table.interp.gc + table.gc.collecting - kGenerationsBeforeCollecting);
    }
    return description;
  }
  if (version.major == 3 && version.minor == 14) {
    ASSIGN_OR_RETURN(const Table314 table, memory.ReadValue(runtime.As<Table314>()));
    ASSIGN_OR_RETURN(SelfDescription description, ConvertSince314(version, table));
    if (!description.offsets.free_threaded && table.gc.collecting < kMaxObjectOffset) {
      description.offsets.interpreter.collector = Narrow(table.interp.gc);
    }
    return description;
  }
  const bool is_newer = IsNewerThanKnown(version);
  if (version.major == 3 && (version.minor == kNewestMinor || is_newer)) {
    ASSIGN_OR_RETURN(const Table315 table, memory.ReadValue(runtime.As<Table315>()));
    if (is_newer && !FitsItsOwnSizes(table)) return Unreadable(version);
    ASSIGN_OR_RETURN(SelfDescription description, ConvertSince314(version, table));
    // What the table does not say is not guessed for a version nobody has seen.
    if (is_newer) return description;
    if (!description.offsets.free_threaded && table.gc.collecting >= kGenerationsBeforeCollecting315) {
      description.offsets.interpreter.generations =
          Narrow(table.interp.gc + table.gc.collecting - kGenerationsBeforeCollecting315);
    }
    return description;
  }
  return Unreadable(version);
}

}  // namespace probing::cpython
