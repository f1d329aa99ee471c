// Tables that nobody declared beforehand: a job made them with @probing.table, and they describe
// themselves in its ring.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "table/source.h"
#include "table/types.h"

namespace probing::table {

// Owns what a Table only points to. Not movable: the table refers to its parts.
class UserTable {
 public:
  explicit UserTable(std::string name);
  UserTable(const UserTable&) = delete;
  UserTable& operator=(const UserTable&) = delete;

  // Adds a column unless it is there. Where two targets disagree about a type, double takes
  // integers and string takes everything.
  void AddColumn(std::string_view name, Type type);

  const Table& table() const { return table_; }
  bool operator==(const UserTable& other) const;

 private:
  std::string name_;
  std::deque<std::string> names_;
  std::vector<Column> columns_;
  Table table_;
};

// The undeclared tables in the targets' rings: those of one name are one table, which has the
// columns of all of them. Names that differ from a declared one by case only are left out.
std::vector<std::shared_ptr<UserTable>> FindUserTables(const std::vector<Target>& targets);

// Whether a table of a job may have this name, which is in lower case.
bool IsUserTableName(const std::string& lower);

}  // namespace probing::table
