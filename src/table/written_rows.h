// Written by `make reference` from src/table; a test checks that it is up to date.
// Rows of the tables that C++ code writes, by the names of their columns. What is not set is NULL.
// clang-format off
#pragma once

#include <array>
#include <string_view>

#include "table/typed_cell.h"

namespace probing::table {

struct PythonGcRow {
  static constexpr std::string_view kTable = "python.gc";
  enum Column : std::uint32_t { kTimestamp, kGeneration, kDurationMs, kCollected, kUncollectable };

  TimestampCell timestamp;
  Int64Cell generation;
  DoubleCell duration_ms;
  Int64Cell collected;
  Int64Cell uncollectable;

  std::array<ring::Cell, 5> Cells() const {
    return {timestamp.cell(), generation.cell(), duration_ms.cell(), collected.cell(), uncollectable.cell()};
  }
};

struct PythonMemoryRow {
  static constexpr std::string_view kTable = "python.memory";
  enum Column : std::uint32_t { kTimestamp, kRss, kVms, kHeap, kBlocks, kGcGen0, kGcGen1, kGcGen2, kGcObjects, kTensorCount, kTensorBytes, kGpuAllocated, kGpuReserved };

  TimestampCell timestamp;
  Int64Cell rss;
  Int64Cell vms;
  Int64Cell heap;
  Int64Cell blocks;
  Int64Cell gc_gen0;
  Int64Cell gc_gen1;
  Int64Cell gc_gen2;
  Int64Cell gc_objects;
  Int64Cell tensor_count;
  Int64Cell tensor_bytes;
  Int64Cell gpu_allocated;
  Int64Cell gpu_reserved;

  std::array<ring::Cell, 13> Cells() const {
    return {timestamp.cell(), rss.cell(), vms.cell(), heap.cell(), blocks.cell(), gc_gen0.cell(), gc_gen1.cell(), gc_gen2.cell(), gc_objects.cell(), tensor_count.cell(), tensor_bytes.cell(), gpu_allocated.cell(), gpu_reserved.cell()};
  }
};

struct PythonSpansRow {
  static constexpr std::string_view kTable = "python.spans";
  enum Column : std::uint32_t { kTimestamp, kTid, kSpan, kParent, kName, kKind, kStep, kDurationMs, kAttributes };

  TimestampCell timestamp;
  Int64Cell tid;
  Int64Cell span;
  Int64Cell parent;
  StringCell name;
  StringCell kind;
  Int64Cell step;
  DoubleCell duration_ms;
  StringCell attributes;

  std::array<ring::Cell, 9> Cells() const {
    return {timestamp.cell(), tid.cell(), span.cell(), parent.cell(), name.cell(), kind.cell(), step.cell(), duration_ms.cell(), attributes.cell()};
  }
};

struct PythonTorchTraceRow {
  static constexpr std::string_view kTable = "python.torch_trace";
  enum Column : std::uint32_t { kTimestamp, kStep, kSeq, kModule, kModuleType, kOperationName, kStage, kAllocated, kMaxAllocated, kCached, kDuration, kDurationMs, kDevice, kSampled, kPhase };

  TimestampCell timestamp;
  Int64Cell step;
  Int64Cell seq;
  StringCell module;
  StringCell module_type;
  StringCell operation_name;
  StringCell stage;
  DoubleCell allocated;
  DoubleCell max_allocated;
  DoubleCell cached;
  DoubleCell duration;
  DoubleCell duration_ms;
  StringCell device;
  BoolCell sampled;
  StringCell phase;

  std::array<ring::Cell, 15> Cells() const {
    return {timestamp.cell(), step.cell(), seq.cell(), module.cell(), module_type.cell(), operation_name.cell(), stage.cell(), allocated.cell(), max_allocated.cell(), cached.cell(), duration.cell(), duration_ms.cell(), device.cell(), sampled.cell(), phase.cell()};
  }
};

struct PythonTorchStepsRow {
  static constexpr std::string_view kTable = "python.torch_steps";
  enum Column : std::uint32_t { kTimestamp, kStep, kDuration, kDataWait, kForward, kBackward, kOptimizer, kOverhead, kPhase, kStepSource, kBackwardPasses };

  TimestampCell timestamp;
  Int64Cell step;
  DoubleCell duration;
  DoubleCell data_wait;
  DoubleCell forward;
  DoubleCell backward;
  DoubleCell optimizer;
  DoubleCell overhead;
  StringCell phase;
  StringCell step_source;
  Int64Cell backward_passes;

  std::array<ring::Cell, 11> Cells() const {
    return {timestamp.cell(), step.cell(), duration.cell(), data_wait.cell(), forward.cell(), backward.cell(), optimizer.cell(), overhead.cell(), phase.cell(), step_source.cell(), backward_passes.cell()};
  }
};

struct PythonCollectivesRow {
  static constexpr std::string_view kTable = "python.collectives";
  enum Column : std::uint32_t { kTimestamp, kSeq, kProcessGroup, kOp, kBytes, kDtype, kState, kWaitMs, kDurationMs, kStep, kP2p, kMembers, kDescription, kSizes, kSource };

  TimestampCell timestamp;
  Int64Cell seq;
  StringCell process_group;
  StringCell op;
  Int64Cell bytes;
  StringCell dtype;
  StringCell state;
  DoubleCell wait_ms;
  DoubleCell duration_ms;
  Int64Cell step;
  BoolCell p2p;
  StringCell members;
  StringCell description;
  StringCell sizes;
  StringCell source;

  std::array<ring::Cell, 15> Cells() const {
    return {timestamp.cell(), seq.cell(), process_group.cell(), op.cell(), bytes.cell(), dtype.cell(), state.cell(), wait_ms.cell(), duration_ms.cell(), step.cell(), p2p.cell(), members.cell(), description.cell(), sizes.cell(), source.cell()};
  }
};

struct PythonCollectiveStartsRow {
  static constexpr std::string_view kTable = "python.collective_starts";
  enum Column : std::uint32_t { kTimestamp, kSeq, kProcessGroup, kOp, kBytes, kStep, kDtype, kP2p, kMembers, kSource };

  TimestampCell timestamp;
  Int64Cell seq;
  StringCell process_group;
  StringCell op;
  Int64Cell bytes;
  Int64Cell step;
  StringCell dtype;
  BoolCell p2p;
  StringCell members;
  StringCell source;

  std::array<ring::Cell, 10> Cells() const {
    return {timestamp.cell(), seq.cell(), process_group.cell(), op.cell(), bytes.cell(), step.cell(), dtype.cell(), p2p.cell(), members.cell(), source.cell()};
  }
};

struct PythonProcessGroupsRow {
  static constexpr std::string_view kTable = "python.process_groups";
  enum Column : std::uint32_t { kTimestamp, kProcessGroup, kDescription, kMembers, kEnqueued, kCompleted };

  TimestampCell timestamp;
  StringCell process_group;
  StringCell description;
  StringCell members;
  Int64Cell enqueued;
  Int64Cell completed;

  std::array<ring::Cell, 6> Cells() const {
    return {timestamp.cell(), process_group.cell(), description.cell(), members.cell(), enqueued.cell(), completed.cell()};
  }
};

}  // namespace probing::table
