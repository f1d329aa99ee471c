#include "query/kept_statements.h"

#include <algorithm>

namespace probing::query {
namespace {

constexpr std::size_t kMost = 64;           // a plan takes some 100 KB
constexpr std::size_t kMostBytes = 10'000;  // of SQL; what is longer is hardly asked twice

}  // namespace

std::unique_ptr<PreparedHandle> KeptStatements::Take(const std::string& sql) {
  const auto found = std::ranges::find(statements_, sql, &Statement::sql);
  if (found == statements_.end()) return nullptr;
  std::unique_ptr<PreparedHandle> prepared = std::move(found->prepared);
  statements_.erase(found);
  return prepared;
}

void KeptStatements::Keep(const std::string& sql, std::unique_ptr<PreparedHandle> statement) {
  if (sql.size() > kMostBytes) return;
  statements_.push_front({sql, std::move(statement)});
  if (statements_.size() > kMost) statements_.pop_back();
}

}  // namespace probing::query
