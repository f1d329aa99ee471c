// What the queries of an engine can read: a source for each table, and for the one query at a time what of it
// may be seen.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "query/request.h"
#include "table/source.h"

namespace probing::query {

// What one query may see. Shared by the engine and the scans of that query.
struct Scope {
  std::vector<table::Target> targets;
  std::optional<table::HistoryScope> history;
  std::map<std::string, table::TimeRange, std::less<>> time;  // by table, where the query says so
  Gatherer gather;                                            // null: `global` is this host
  bool is_recorded = false;                                   // see ScanRequest
  bool is_rehearsal = false;                                  // no table has rows: see Engine::Rehearse

  // A target that cannot be read does not spoil the answer about the others.
  void Warn(std::string warning);
  // A source could not give its rows: that is no mistake in the SQL.
  std::atomic<bool> source_failed = false;
  std::vector<std::string> TakeWarnings();

 private:
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

// The sources by table name, and the scope of the query that is being prepared. Used by one
// query at a time; the scans themselves keep what they need alive.
class ScanCatalog {
 public:
  void Add(std::shared_ptr<table::Source> source);
  void Remove(std::string_view table);
  std::shared_ptr<table::Source> Find(std::string_view table) const;

  void Enter(std::shared_ptr<Scope> scope);
  void Leave();
  const std::shared_ptr<Scope>& scope() const { return scope_; }
  // Tables of the schema `system` that were found by their last name only (see engine.cc).
  std::set<std::string>& by_last_name() { return by_last_name_; }
  // How many scans of each table were bound since StartCounting().
  void StartCounting() { bound_.clear(); }
  const std::map<std::string, std::size_t, std::less<>>& bound() const { return bound_; }
  void CountScan(std::string_view table) { ++bound_[std::string(table)]; }

 private:
  std::map<std::string, std::shared_ptr<table::Source>, std::less<>> sources_;
  std::shared_ptr<Scope> scope_;
  std::set<std::string> by_last_name_;
  std::map<std::string, std::size_t, std::less<>> bound_;
};

}  // namespace probing::query
