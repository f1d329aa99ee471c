// What the history worker and probingd say to each other, and the rows that wait on disk for a store.
#include <cstdint>
#include <cstdlib>

#include "history/batch.h"
#include "history/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::history;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  StateMessage state;
  StateMessage state_again;
  if (Decode(bytes, state) && (!Decode(Encode(state), state_again) || state_again.rings != state.rings))
    std::abort();
  StatusMessage status;
  StatusMessage status_again;
  if (Decode(bytes, status) && (!Decode(Encode(status), status_again) || status_again != status))
    std::abort();
  if (const std::optional<Batch> batch = Batch::Decode(bytes)) {
    if (!Batch::Decode(batch->Encode())) std::abort();
  }
  return 0;
}
