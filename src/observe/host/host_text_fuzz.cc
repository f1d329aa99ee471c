// Files of /proc, cgroups, the kernel's log and what npu-smi prints: names in them are anybody's choice.
#include <cstdint>
#include <cstdlib>

#include "observe/gpu/ascend.h"
#include "observe/host/kernel_log.h"
#include "observe/host/kernel_record.h"
#include "observe/host/proc_text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::observe;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (ParseNumber(text).value_or(0) < 0) std::abort();
  (void)FindNumber(text, "VmSwap:");
  (void)FindKilobytes(text, "VmRSS:");
  (void)ParseTaskStat(text);
  (void)OomKillIn(text, 17);
  (void)ParseNpuSmi(text);
  for (std::string_view rest = text; !rest.empty();) (void)ParseKernelRecord(TakeLine(rest));
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t before = rest.size();
    std::string_view line = TakeLine(rest);
    while (!TakeWord(line).empty()) {
    }
    if (rest.size() >= before) std::abort();
  }
  return 0;
}
