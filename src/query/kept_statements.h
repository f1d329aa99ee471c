// Statements that were asked before, ready to run again: a page that refreshes itself asks the same every
// second, and to understand a question takes as long as to answer it.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "query/handles.h"

namespace probing::query {

class KeptStatements {
 public:
  // Null when it has to be prepared. It is the caller's until it is kept again: one that failed is not.
  std::unique_ptr<PreparedHandle> Take(const std::string& sql);
  void Keep(const std::string& sql, std::unique_ptr<PreparedHandle> statement);
  // They read tables that have become others.
  void Clear() { statements_.clear(); }

 private:
  struct Statement {
    std::string sql;
    std::unique_ptr<PreparedHandle> prepared;
  };
  std::list<Statement> statements_;  // the last one used is the first
};

}  // namespace probing::query
