// What a store answers becomes SQL of ours, which is run: a text of it stays a text.
#include <cstdint>
#include <cstdlib>

#include "store/answer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view answer(reinterpret_cast<const char*>(data), size);
  const probing::Result<std::string> select = probing::store::ToSelect(answer);
  if (!select.ok()) return 0;
  // Outside of quotes there is nothing that ends the statement or starts a comment.
  char quote = 0;
  for (std::size_t i = 0; i < select->size(); ++i) {
    const char c = (*select)[i];
    if (quote != 0) {
      if (c == quote) quote = 0;  // a doubled one opens it again
    } else if (c == '\'' || c == '"') {
      quote = c;
    } else if (c == ';' || select->compare(i, 2, "--") == 0 || select->compare(i, 2, "/*") == 0) {
      std::abort();
    }
  }
  if (quote != 0) std::abort();
  return 0;
}
