// Traces that somebody sent us: any bytes, also compressed ones.
#include <cstdint>
#include <cstdlib>

#include "trace/reader.h"
#include "trace/timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::trace;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::unique_ptr<ByteSource> source = ByteSource::Of(bytes);
  probing::Result<ReadTrace> trace = Read(*source, 100);
  if (!trace.ok()) return 0;
  if (trace->events.ops.size() + trace->events.gpu.size() > 100) std::abort();
  Arrange(trace->events);
  for (const Op& op : trace->events.ops) {
    if (op.self_ns < 0 || op.self_ns > op.duration_ns) std::abort();
  }
  return 0;
}
