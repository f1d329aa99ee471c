// Line tables of all formats: the first byte chooses, the next ones are the line and the position.
#include <cstring>

#include "cpython/line_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace probing::cpython;
  struct Head {
    std::int32_t first_line;
    std::int32_t position;
  } head;
  if (size < 1 + sizeof(head)) return 0;
  std::memcpy(&head, data + 1, sizeof(head));
  const auto format = static_cast<LineTableFormat>(data[0] % 3);
  (void)FindLine(format, {data + 1 + sizeof(head), size - 1 - sizeof(head)}, head.first_line, head.position);
  return 0;
}
