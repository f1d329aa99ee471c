// An incident file that somebody sent us: any bytes. Sums that a mutation breaks are repaired, so that what
// lies behind them is reached, too; what is read must be rows of the declared types.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "incident/contents.h"
#include "table/registry.h"

namespace probing::incident {
namespace {

void Read(std::string_view bytes) {
  const Result<std::unique_ptr<const Contents>> contents = Contents::Read(bytes);
  if (!contents.ok()) return;
  for (const table::Table* table : table::AllTables()) {
    if (table->kind != table::Kind::kLive) continue;
    std::vector<std::size_t> columns(table->columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = i;
    (void)(*contents)->Provide(*table, nullptr, columns);
    for (const table::Target& target : (*contents)->targets()) {
      const table::Rows rows = (*contents)->Provide(*table, &target, columns);
      if (rows.width() != columns.size()) std::abort();
    }
  }
}

// The bytes behind the head, up to the first zero, are the index, and what follows are the blocks.
std::string Repaired(std::string_view bytes) {
  if (bytes.size() <= sizeof(Head)) return "";
  const std::string_view rest = bytes.substr(sizeof(Head));
  const std::size_t end = std::min(rest.find('\0'), rest.size());
  Json index = Json::parse(rest.substr(0, end), nullptr, /*allow_exceptions=*/false);
  std::string_view blocks = rest.substr(std::min(end + 1, rest.size()));
  if (!index.is_object() || !index.contains("tables") || !index["tables"].is_array()) return "";
  std::string_view left = blocks;
  for (Json& table : index["tables"]) {
    if (!table.is_object()) continue;
    const Json bytes_of = table.value("bytes", Json());
    const std::uint64_t size = bytes_of.is_number_unsigned() ? bytes_of.get<std::uint64_t>() : 0;
    const std::string_view block = left.substr(0, size);
    left.remove_prefix(block.size());
    table["sum"] = Checksum(block);
    table["bytes"] = block.size();
  }
  const std::string text = index.dump(-1, ' ', false, Json::error_handler_t::replace);
  Head head{};
  std::memcpy(head.magic, wire::kIncidentMagic.data(), sizeof head.magic);
  head.version = wire::kIncidentVersion;
  head.index_bytes = text.size();
  head.index_sum = Checksum(text);
  std::string file(reinterpret_cast<const char*>(&head), sizeof head);
  return file.append(text).append(blocks.substr(0, blocks.size() - left.size()));
}

}  // namespace
}  // namespace probing::incident

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  probing::incident::Read(bytes);
  if (const std::string repaired = probing::incident::Repaired(bytes); !repaired.empty())
    probing::incident::Read(repaired);
  return 0;
}
