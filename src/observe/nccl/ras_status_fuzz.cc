// Answers of NCCL's RAS port, and the environment that says where it is: anybody may listen there.
#include <cstdlib>

#include "observe/nccl/ras_client.h"
#include "observe/nccl/ras_status.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::observe;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)ParseRasAddress(text);
  for (const auto& status : {ParseRasStatus(text), ParseRasJson(text), ParseRasText(text)}) {
    if (!status.ok()) continue;
    if (status->communicators.size() > kMaxRasCommunicators) std::abort();
    for (const RasCommunicator& comm : status->communicators) {
      for (const RasRank& rank : comm.ranks) {
        if (rank.comm_rank < 0 || rank.comm_rank >= comm.size || rank.behind.value_or(0) < 0) std::abort();
      }
    }
  }
  return 0;
}
