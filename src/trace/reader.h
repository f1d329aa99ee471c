// Reads a trace of torch.profiler (Kineto's JSON, of CUDA, ROCm or the CPU alone) as a stream.
//
// Files may be GBs and come from anywhere: no more than `most_events` are kept (the others are counted), no
// text or number of more than 16 MB is read, and no value deeper than 64 levels. Nothing throws.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "trace/byte_source.h"
#include "trace/events.h"

namespace probing::trace {

struct ReadTrace {
  Events events;
  std::string problem;  // "" when the file is whole: why it ended early
};

// kFailed for what is no such trace. A file that ends early, as when a job died while it was writing, gives
// what there is, and a problem.
Result<ReadTrace> Read(ByteSource& source, std::size_t most_events);

}  // namespace probing::trace
