// What a query worker says, in which anybody's SQL runs, and the rows that other hosts send. The first byte
// says what it is taken for. What is understood is the same when it is said again.
#include <cstdint>
#include <cstdlib>

#include "query/gathered_rows.h"
#include "query/protocol.h"
#include "table/rows.h"

namespace {

using namespace probing;
using namespace probing::query;

template <typename Message>
void SayAgain(std::string_view bytes) {
  Message message;
  Message again;
  if (!Decode(bytes, message)) return;
  const std::string said = Encode(message);
  if (!Decode(said, again) || Encode(again) != said) std::abort();
}

void LookAt(const GatheredRows& rows) {
  std::int64_t sum = 0;
  for (std::size_t column = 0; column < rows.width(); ++column) {
    if (rows.type(column) != table::Type::kInt64) continue;
    for (std::size_t row = 0; row < rows.size(); ++row) sum ^= rows.Number(column, row);
  }
  static volatile std::int64_t kept = 0;
  kept = sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  QueryMessage query;
  std::vector<std::string> texts;
  switch (data[0] % 10) {
    case 0:
      return SayAgain<OpenMessage>(bytes), 0;
    case 1:
      return SayAgain<NeedMessage>(bytes), 0;
    case 2:
      return SayAgain<EndMessage>(bytes), 0;
    case 3:
      return SayAgain<GatherRequest>(bytes), 0;
    case 4:
      (void)Decode(bytes, query, {});
      return 0;
    case 5:
      (void)DecodeResult(bytes);
      return 0;
    case 6:
      if (DecodeTexts(bytes, texts) && EncodeTexts(texts).size() > bytes.size() + 16) std::abort();
      return 0;
    case 7: {
      const Result<table::Rows> rows = table::Rows::Decode(bytes);
      if (rows.ok() && !table::Rows::Decode(rows->Encode()).ok()) std::abort();
      return 0;
    }
    default: {
      std::vector<table::Type> types{table::Type::kInt64, table::Type::kString};
      if (data[0] % 10 == 9) types = {};
      const Result<GatheredRows> rows = GatheredRows::Parse(std::string(bytes), types);
      if (rows.ok()) LookAt(*rows);
      return 0;
    }
  }
}
