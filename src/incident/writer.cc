#include "incident/writer.h"

#include <cstring>
#include <utility>

#include "cluster/packing.h"

namespace probing::incident {
namespace {

constexpr std::size_t kShortestSecret = 8;

std::string Text(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

Block MakeBlock(std::string frame) {
  Block block{.unpacked = frame.size()};
  block.bytes = cluster::Pack(frame);
  block.is_packed = !block.bytes.empty();
  if (!block.is_packed) block.bytes = std::move(frame);
  return block;
}

void Writer::Add(TableHead table, Block block) {
  Json columns = Json::array();
  for (const Column& column : table.columns)
    columns.push_back(Json::array({column.name, table::TypeName(column.type)}));
  tables_.push_back({{"name", std::move(table.name)},
                     {"columns", std::move(columns)},
                     {"own", table.own},
                     {"rows", table.rows},
                     {"left_out", table.left_out},
                     {"is_packed", block.is_packed},
                     {"bytes", block.bytes.size()},
                     {"unpacked", block.unpacked},
                     {"sum", Checksum(block.bytes)}});
  bytes_ += block.bytes.size();
  blocks_.push_back(std::move(block.bytes));
}

std::string Writer::Finish(Json about, const std::vector<std::string>& secrets) {
  about["tables"] = std::move(tables_);
  std::string index = Text(about);
  Redact(index, secrets);
  Head head{};
  std::memcpy(head.magic, wire::kIncidentMagic.data(), sizeof head.magic);
  head.version = wire::kIncidentVersion;
  head.index_bytes = index.size();
  head.index_sum = Checksum(index);
  std::string file(reinterpret_cast<const char*>(&head), sizeof head);
  file.reserve(sizeof head + index.size() + bytes_);
  file += index;
  for (std::string& block : blocks_) file += std::exchange(block, {});
  return file;
}

void Redact(std::string& bytes, const std::vector<std::string>& secrets) {
  for (const std::string& secret : secrets) {
    if (secret.size() < kShortestSecret) continue;
    for (std::size_t at = 0; (at = bytes.find(secret, at)) != std::string::npos; at += secret.size())
      bytes.replace(at, secret.size(), secret.size(), '*');
  }
}

}  // namespace probing::incident
