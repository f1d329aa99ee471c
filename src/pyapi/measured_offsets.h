// Where the GIL's flags are: made by tools/cpython_offsets.py, checked by
// tests/integration/test_offsets.py. All numbers are bytes.
#pragma once

#include "pyapi/gil_offsets.h"

// clang-format off
namespace probing::pyapi {

constexpr GilOffsets Measured308() {
  GilOffsets o;
  o.queue_closed = 600;
  return o;
}

constexpr GilOffsets Measured309() {
  GilOffsets o;
  o.breaker = 72;
  o.threads_head = 8;
  o.modules = 856;
  return o;
}

constexpr GilOffsets Measured310() {
  GilOffsets o;
  o.breaker = 68;
  o.threads_head = 8;
  o.modules = 856;
  return o;
}

constexpr GilOffsets Measured311() {
  GilOffsets o;
  o.breaker = 100;
  o.threads_head = 16;
  o.modules = 888;
  return o;
}

constexpr GilOffsets Measured312() {
  GilOffsets o;
  o.breaker = 368;
  o.threads_head = 72;
  o.modules = 944;
  return o;
}

}  // namespace probing::pyapi
