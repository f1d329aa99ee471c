// Bytes on a probe's socket, arriving in two parts. What was understood must survive being sent again.
#include <cstdlib>

#include "wire/message.h"

namespace {

using probing::wire::Decoder;
using probing::wire::Message;

void CheckSentAgain(const Message& message) {
  Decoder decoder;
  decoder.Append(message.Encode());
  const auto again = decoder.Next();
  if (!again.ok() || !*again || (*again)->id() != message.id()) std::abort();
  if ((*again)->fields() != message.fields()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t first = std::min<std::size_t>(data[0], bytes.size());
  Decoder decoder;
  for (const std::string_view part : {bytes.substr(0, first), bytes.substr(first)}) {
    decoder.Append(part);
    while (true) {
      const auto message = decoder.Next();
      if (!message.ok()) return 0;
      if (!*message) break;
      CheckSentAgain(**message);
      (void)(*message)->failure();
      (void)(*message)->GetNumber("timeout_ms");
    }
  }
  return 0;
}
