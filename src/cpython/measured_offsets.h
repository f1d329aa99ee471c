// Where the fields are that a stack is read from: made by tools/cpython_offsets.py, checked by
// tests/integration/test_offsets.py. All numbers are bytes.
#pragma once

#include "cpython/offsets.h"

// clang-format off
namespace probing::cpython {

constexpr Offsets Measured304() {
  Offsets o;
  o.interpreter = {.next = 0, .threads_head = 8, .modules = 16};
  o.thread = {.next = 8, .interpreter = 16, .frame = 24, .thread_id = 152};
  o.frame = {.previous = 24, .code = 32, .instruction = 120, .generator = 112, .executing = 132,
      .locals = 376, .stack_pointer = 72};
  o.code = {.filename = 96, .name = 104, .line_table = 120, .first_line = 112, .bytecode_object = 40,
      .local_names = 64, .cell_names = 80, .free_names = 72, .argument_count = 16, .keyword_count = 20,
      .flags = 32};
  o.unicode = {.length = 16, .state = 32, .ascii_data = 48, .other_data = 72};
  o.bytes = {.size = 16, .data = 32};
  o.object_type = 8;
  return o;
}

constexpr Offsets Measured305() {
  Offsets o;
  o.interpreter = {.next = 0, .threads_head = 8, .modules = 16};
  o.thread = {.next = 8, .interpreter = 16, .frame = 24, .thread_id = 152};
  o.frame = {.previous = 24, .code = 32, .instruction = 120, .generator = 112, .executing = 132,
      .locals = 376, .stack_pointer = 72};
  o.code = {.filename = 96, .name = 104, .line_table = 120, .first_line = 112, .bytecode_object = 40,
      .local_names = 64, .cell_names = 80, .free_names = 72, .argument_count = 16, .keyword_count = 20,
      .flags = 32};
  o.unicode = {.length = 16, .state = 32, .ascii_data = 48, .other_data = 72};
  o.bytes = {.size = 16, .data = 32};
  o.object_type = 8;
  return o;
}

constexpr Offsets Measured306() {
  Offsets o;
  o.interpreter = {.next = 0, .threads_head = 8, .modules = 16};
  o.thread = {.next = 8, .interpreter = 16, .frame = 24, .thread_id = 152};
  o.frame = {.previous = 24, .code = 32, .instruction = 120, .generator = 112, .executing = 132,
      .locals = 376, .stack_pointer = 72};
  o.code = {.filename = 96, .name = 104, .line_table = 112, .first_line = 36, .bytecode_object = 40,
      .local_names = 64, .cell_names = 80, .free_names = 72, .argument_count = 16, .keyword_count = 20,
      .flags = 32};
  o.unicode = {.length = 16, .state = 32, .ascii_data = 48, .other_data = 72};
  o.bytes = {.size = 16, .data = 32};
  o.object_type = 8;
  return o;
}

constexpr Offsets Measured307() {
  Offsets o;
  o.runtime = {.interpreters_head = 24, .current_thread = 1480, .collecting = 632, .generations = 352};
  o.interpreter = {.next = 0, .threads_head = 8, .modules = 40, .id = 16};
  o.collector = {.head = 32, .generation = 48};
  o.thread = {.next = 8, .interpreter = 16, .frame = 24, .thread_id = 176};
  o.frame = {.previous = 24, .code = 32, .instruction = 104, .generator = 96, .executing = 116,
      .locals = 360, .stack_pointer = 72};
  o.code = {.filename = 96, .name = 104, .line_table = 112, .first_line = 36, .bytecode_object = 40,
      .local_names = 64, .cell_names = 80, .free_names = 72, .argument_count = 16, .keyword_count = 20,
      .flags = 32};
  o.unicode = {.length = 16, .state = 32, .ascii_data = 48, .other_data = 72};
  o.bytes = {.size = 16, .data = 32};
  o.object_type = 8;
  return o;
}

constexpr Offsets Measured308() {
  Offsets o;
  o.runtime = {.interpreters_head = 32, .current_thread = 1368, .collecting = 544, .generations = 368};
  o.interpreter = {.next = 0, .threads_head = 8, .modules = 56, .id = 16};
  o.collector = {.head = 16, .generation = 24};
  o.thread = {.next = 8, .interpreter = 16, .frame = 24, .thread_id = 176};
  o.frame = {.previous = 24, .code = 32, .instruction = 104, .generator = 96, .executing = 116,
      .locals = 360, .stack_pointer = 72};
  o.code = {.filename = 104, .name = 112, .line_table = 120, .first_line = 40, .bytecode_object = 48,
      .local_names = 72, .cell_names = 88, .free_names = 80, .argument_count = 16, .keyword_count = 24,
      .flags = 36};
  o.unicode = {.length = 16, .state = 32, .ascii_data = 48, .other_data = 72};
  o.bytes = {.size = 16, .data = 32};
  o.object_type = 8;
  return o;
}

constexpr Offsets Measured309() {
  Offsets o;
  o.runtime = {.interpreters_head = 32, .current_thread = 568};
  o.interpreter = {.next = 0, .threads_head = 8, .modules = 856, .id = 24, .collecting = 816,
      .generations = 640};
  o.collector = {.head = 16, .generation = 24};
  o.thread = {.next = 8, .interpreter = 16, .frame = 24, .thread_id = 176};
  o.frame = {.previous = 24, .code = 32, .instruction = 104, .generator = 96, .executing = 116,
      .locals = 360, .stack_pointer = 72};
  o.code = {.filename = 104, .name = 112, .line_table = 120, .first_line = 40, .bytecode_object = 48,
      .local_names = 72, .cell_names = 88, .free_names = 80, .argument_count = 16, .keyword_count = 24,
      .flags = 36};
  o.unicode = {.length = 16, .state = 32, .ascii_data = 48, .other_data = 72};
  o.bytes = {.size = 16, .data = 32};
  o.object_type = 8;
  return o;
}

constexpr Offsets Measured310() {
  Offsets o;
  o.runtime = {.interpreters_head = 32, .current_thread = 568};
  o.interpreter = {.next = 0, .threads_head = 8, .modules = 856, .id = 24, .collecting = 816,
      .generations = 640};
  o.collector = {.head = 16, .generation = 24};
  o.thread = {.next = 8, .interpreter = 16, .frame = 24, .thread_id = 176};
  o.frame = {.previous = 24, .code = 32, .instruction = 96, .generator = 88, .executing = 108,
      .locals = 352, .stack_count = 80, .value_stack = 64};
  o.executing_state = 0;
  o.unwinding_state = 2;
  o.object_type = 8;
  o.code = {.filename = 104, .name = 112, .line_table = 120, .first_line = 40, .bytecode_object = 48,
      .local_names = 72, .cell_names = 88, .free_names = 80, .argument_count = 16, .keyword_count = 24,
      .flags = 36};
  o.unicode = {.length = 16, .state = 32, .ascii_data = 48, .other_data = 72};
  o.bytes = {.size = 16, .data = 32};
  return o;
}

constexpr Offsets Measured311() {
  Offsets o;
  o.runtime = {.interpreters_head = 40, .current_thread = 576};
  o.interpreter = {.next = 0, .threads_head = 16, .modules = 888, .id = 48, .collecting = 848,
      .generations = 672};
  o.collector = {.head = 16, .generation = 24};
  o.thread = {.next = 8, .interpreter = 16, .c_frame = 56, .thread_id = 152, .native_thread_id = 160};
  o.c_frame_current = 8;
  o.object_type = 8;
  o.frame = {.previous = 48, .code = 32, .instruction = 56, .owner = 69, .entry = 68, .locals = 72,
      .stack_count = 64};
  o.code = {.filename = 112, .name = 120, .qualified_name = 128, .line_table = 136, .first_line = 72,
      .first_traceable = 168, .bytecode = 184, .local_names = 96, .local_kinds = 104,
      .argument_count = 56, .keyword_count = 64, .flags = 48};
  o.unicode = {.length = 16, .state = 32, .ascii_data = 48, .other_data = 72};
  o.bytes = {.size = 16, .data = 32};
  return o;
}

constexpr Offsets Measured312() {
  Offsets o;
  o.runtime = {.interpreters_head = 40};
  o.interpreter = {.next = 0, .threads_head = 72, .gil = 384, .modules = 944, .id = 8, .collecting = 312,
      .generations = 136};
  o.collector = {.head = 16, .generation = 24};
  o.gil = {.last_holder = 8, .locked = 16};
  o.thread = {.next = 8, .interpreter = 16, .c_frame = 56, .thread_id = 136, .native_thread_id = 144};
  o.c_frame_current = 0;
  o.object_type = 8;
  o.frame = {.previous = 8, .code = 0, .instruction = 56, .owner = 70, .locals = 72, .stack_count = 64};
  o.code = {.filename = 112, .name = 120, .qualified_name = 128, .line_table = 136, .first_line = 68,
      .first_traceable = 176, .bytecode = 192, .local_names = 96, .local_kinds = 104,
      .argument_count = 52, .keyword_count = 60, .flags = 48};
  o.unicode = {.length = 16, .state = 32, .ascii_data = 40, .other_data = 56};
  o.bytes = {.size = 16, .data = 32};
  return o;
}

}  // namespace probing::cpython
