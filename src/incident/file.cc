#include "incident/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/scoped_fd.h"
#include "cluster/packing.h"
#include "table/rows.h"

namespace probing::incident {
namespace {

constexpr std::size_t kMostNameBytes = 256;
constexpr int kDeepest = 64;

Error Damaged(const std::string& what) {
  return {Code::kFailed, "the incident file is damaged: " + what, "was all of it copied?"};
}

// 0 for anything but a whole number that is not negative.
std::uint64_t Number(const Json& entry, const char* name) {
  const auto found = entry.find(name);
  return found != entry.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

bool ReadName(const Json& value, std::string& name) {
  if (!value.is_string()) return false;
  name = value.get<std::string>();
  return !name.empty() && name.size() <= kMostNameBytes && table::IsUtf8(name);
}

bool ReadType(const Json& value, table::Type& type) {
  for (const table::Type each : {table::Type::kInt64, table::Type::kDouble, table::Type::kBool,
                                 table::Type::kString, table::Type::kBytes, table::Type::kTimestamp}) {
    if (value != table::TypeName(each)) continue;
    type = each;
    return true;
  }
  return false;
}

// An index from somebody else may be nested so deeply that taking it apart fills the stack.
Json ParseIndex(const std::string& text) {
  return Json::parse(
      text, [](int depth, Json::parse_event_t, Json&) { return depth < kDeepest; },
      /*allow_exceptions=*/false);
}

}  // namespace

bool IsIncident(const std::string& path) {
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char first[wire::kIncidentMagic.size()] = {};
  return file.valid() && read(file.get(), first, sizeof first) == sizeof first &&
         std::string_view(first, sizeof first) == wire::kIncidentMagic;
}

Result<File> File::Parse(std::string_view bytes) {
  Head head{};
  if (bytes.size() < sizeof head) return Damaged("it ends in its head");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::string_view(head.magic, sizeof head.magic) != wire::kIncidentMagic)
    return Error{Code::kFailed, "it is no incident file", "`probing incident -o FILE` writes them"};
  if (head.version != wire::kIncidentVersion) {
    return Error{Code::kFailed,
                 "the incident file is of version " + std::to_string(head.version) + ", and version " +
                     std::to_string(wire::kIncidentVersion) + " is read",
                 "open it with the version of Probing that wrote it, or a newer one"};
  }
  if (head.reserved != 0) return Damaged("its head has changed");
  std::string_view rest = bytes.substr(sizeof head);
  if (head.index_bytes > kMostIndexBytes) return Damaged("its index is too large");
  if (head.index_bytes > rest.size()) return Damaged("it ends in its index");
  const std::string index(rest.substr(0, head.index_bytes));
  rest.remove_prefix(head.index_bytes);
  if (Checksum(index) != head.index_sum) return Damaged("its index has changed");
  File file;
  file.about_ = ParseIndex(index);
  if (!file.about_.is_object()) return Damaged("its index is no JSON");
  const Json tables = std::exchange(file.about_["tables"], Json());
  if (!tables.is_array() || tables.size() > kMostTables) return Damaged("its index has no list of tables");
  for (const Json& entry : tables) RETURN_IF_ERROR(file.AddTable(entry, rest));
  if (!rest.empty()) return Damaged("there is more in it than its index says");
  return file;
}

Result<void> File::AddTable(const Json& entry, std::string_view& rest) {
  TableHead table;
  Block block;
  if (!entry.is_object() || !ReadName(entry.value("name", Json()), table.name))
    return Damaged("a table has no name");
  const Json columns = entry.value("columns", Json());
  if (!columns.is_array() || columns.empty() || columns.size() > kMostColumns)
    return Damaged(table.name + " has no columns");
  for (const Json& each : columns) {
    Column column;
    if (!each.is_array() || each.size() != 2 || !ReadName(each[0], column.name) ||
        !ReadType(each[1], column.type))
      return Damaged("a column of " + table.name + " has no name or no type");
    table.columns.push_back(std::move(column));
  }
  table.own = Number(entry, "own");
  if (table.own == 0 || table.own > table.columns.size()) return Damaged(table.name + " has no columns");
  table.rows = Number(entry, "rows");
  table.left_out = Number(entry, "left_out");
  block.unpacked = Number(entry, "unpacked");
  block.sum = Number(entry, "sum");
  block.is_packed = entry.value("is_packed", Json()) == true;
  const std::uint64_t size = Number(entry, "bytes");
  if (size > rest.size()) return Damaged("it ends in the rows of " + table.name);
  if (block.unpacked > kMostBlockBytes || table.rows > kMostCells)
    return Damaged(table.name + " is too large");
  block.bytes = rest.substr(0, size);
  rest.remove_prefix(size);
  unpacked_ += block.unpacked;
  cells_ += table.rows * table.columns.size();
  if (unpacked_ > kMostBytes || cells_ > kMostCells) return Damaged("it is too large when unpacked");
  tables_.push_back(std::move(table));
  blocks_.push_back(block);
  return {};
}

Result<query::GatheredRows> File::Rows(std::size_t table) const {
  const Block& block = blocks_[table];
  const TableHead& head = tables_[table];
  if (Checksum(block.bytes) != block.sum) return Damaged("the rows of " + head.name + " have changed");
  std::string frame;
  if (block.is_packed) {
    Result<std::string> unpacked = cluster::Unpack(block.bytes, block.unpacked);
    if (!unpacked.ok()) return Damaged("the rows of " + head.name + " cannot be unpacked");
    frame = std::move(*unpacked);
  } else {
    frame = block.bytes;
  }
  std::vector<table::Type> types;
  for (const Column& column : head.columns) types.push_back(column.type);
  Result<query::GatheredRows> rows = query::GatheredRows::Parse(std::move(frame), types);
  if (!rows.ok() || rows->size() != head.rows)
    return Damaged("the rows of " + head.name + " are not as its index says");
  return rows;
}

}  // namespace probing::incident
