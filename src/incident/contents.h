// The rows of an incident file, as a query reads them: stored tables in rings, one for each process, as its
// probe would have them; live tables as they were when the file was written.
//
// No process is looked at: the numbers in the file mean processes of another time, and mostly of another
// machine. Thread-safe once it is loaded.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "incident/file.h"
#include "ring/arena.h"
#include "table/rows.h"
#include "table/source.h"

namespace probing::incident {

class Contents {
 public:
  static Result<std::unique_ptr<const Contents>> Load(const std::string& path);
  static Result<std::unique_ptr<const Contents>> Read(std::string_view bytes);

  const std::vector<table::Target>& targets() const { return targets_; }
  std::int64_t recorded_ns() const { return recorded_ns_; }  // what now() is
  const Json& about() const { return about_; }               // the index, without its tables
  // What could not be read, as sentences.
  const std::vector<std::string>& problems() const { return problems_; }
  // How many older rows of a table did not fit into the file; 0 when all did.
  const std::map<std::string, std::uint64_t>& left_out() const { return left_out_; }

  // Rows of a live table. REQUIRES: `target` is one of targets(), or null for a table about the host.
  table::Rows Provide(const table::Table& table, const table::Target* target,
                      const std::vector<std::size_t>& columns) const;

 private:
  class Loader;
  using Process = std::pair<std::string, std::int64_t>;  // host and pid
  static constexpr std::size_t kHost = SIZE_MAX;         // instead of the index of a target

  std::vector<table::Target> targets_;
  std::map<Process, std::size_t> indexes_;  // of targets_
  std::vector<std::unique_ptr<ring::Arena>> arenas_;
  std::map<std::string, std::map<std::size_t, table::Rows>, std::less<>> live_;
  std::map<std::string, std::uint64_t> left_out_;
  std::vector<std::string> problems_;
  std::int64_t recorded_ns_ = 0;
  Json about_;
};

}  // namespace probing::incident
