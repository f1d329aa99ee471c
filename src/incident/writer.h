// Makes the bytes of an incident file, table by table. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "incident/format.h"

namespace probing::incident {

// The rows of a table as they are in the file.
struct Block {
  std::string bytes;
  bool is_packed = false;
  std::uint64_t unpacked = 0;
};
// `frame` is what the format `frame` of a query gives.
Block MakeBlock(std::string frame);

class Writer {
 public:
  // REQUIRES: the rows have these columns.
  void Add(TableHead table, Block block);

  std::uint64_t bytes() const { return bytes_; }  // of all blocks
  std::size_t tables() const { return blocks_.size(); }

  // The file. `about` is an object: what the index says beside the tables. Secrets are starred out in it.
  std::string Finish(Json about, const std::vector<std::string>& secrets);

 private:
  Json tables_ = Json::array();
  std::vector<std::string> blocks_;
  std::uint64_t bytes_ = 0;
};

// Overwrites each of these texts wherever it occurs, with as many stars, so that no length changes. Texts of
// less than eight bytes are left: they may be anything.
void Redact(std::string& bytes, const std::vector<std::string>& secrets);

}  // namespace probing::incident
