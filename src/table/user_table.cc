#include "table/user_table.h"

#include <algorithm>
#include <map>

#include "base/text.h"
#include "table/registry.h"
#include "table/ring_pool.h"
#include "table/ring_source.h"
#include "table/rows.h"

namespace probing::table {
namespace {

constexpr std::size_t kMaxTables = 500;  // of all targets together; a damaged ring could claim anything

// SQL schemas that are not for tables of a job.
bool IsReserved(std::string_view schema) {
  return schema == "global" || schema == "memory" || schema == "temp" || schema == "probing" ||
         schema == "information_schema" || schema == "pg_catalog" || schema == "main";
}

}  // namespace

UserTable::UserTable(std::string name)
    : name_(std::move(name)),
      table_{name_, Kind::kStored, Origin::kProbe, "made by the job (@probing.table)", {}} {}

void UserTable::AddColumn(std::string_view name, Type type) {
  const std::string lower = LowerCase(name);
  for (Column& column : columns_) {
    if (LowerCase(column.name) != lower) continue;
    const bool are_numbers = (column.type == Type::kInt64 || column.type == Type::kDouble) &&
                             (type == Type::kInt64 || type == Type::kDouble);
    if (column.type != type) column.type = are_numbers ? Type::kDouble : Type::kString;
    return;
  }
  columns_.push_back({names_.emplace_back(name), type, "", ""});
  table_.columns = columns_;
}

bool UserTable::operator==(const UserTable& other) const {
  return name_ == other.name_ &&
         std::ranges::equal(columns_, other.columns_, [](const Column& a, const Column& b) {
           return a.name == b.name && a.type == b.type;
         });
}

bool IsUserTableName(const std::string& lower) {
  return FindTable(lower) == nullptr && !IsReserved(SchemaOf(lower)) && IsUtf8(lower);
}

std::vector<std::shared_ptr<UserTable>> FindUserTables(const std::vector<Target>& targets) {
  std::map<std::string, std::shared_ptr<UserTable>> found;
  for (const Target& target : targets) {
    for (const auto& fd : target.ring_fds) {
      const Result<RingLease> reader = LeaseRing(*fd);
      if (!reader.ok()) continue;  // a scan of its tables says why
      for (const ring::TableInfo& info : reader.value()->Tables()) {
        const std::string lower = LowerCase(info.name);
        if (!IsUserTableName(lower)) continue;
        if (!found.contains(lower) && found.size() == kMaxTables) continue;
        auto& table = found[lower];
        if (table == nullptr) table = std::make_shared<UserTable>(lower);
        for (const ring::Column& column : info.columns) {
          if (IsUtf8(column.name)) table->AddColumn(column.name, FromRing(column.type));
        }
      }
    }
  }
  std::vector<std::shared_ptr<UserTable>> tables;
  for (auto& [name, table] : found) tables.push_back(std::move(table));
  return tables;
}

}  // namespace probing::table
