// An incident file that somebody sent us: any bytes. All that it says of itself is checked before it is used,
// and bounded (format.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "incident/format.h"
#include "query/gathered_rows.h"

namespace probing::incident {

// Whether it is a file that begins as incidents do.
bool IsIncident(const std::string& path);

class File {
 public:
  // Lifetime: the bytes outlive the file.
  static Result<File> Parse(std::string_view bytes);

  const Json& about() const { return about_; }  // an object; what is in it is not checked
  const std::vector<TableHead>& tables() const { return tables_; }
  // Unpacked and checked.
  Result<query::GatheredRows> Rows(std::size_t table) const;

 private:
  struct Block {
    std::string_view bytes;
    bool is_packed = false;
    std::uint64_t unpacked = 0;
    std::uint64_t sum = 0;
  };
  Result<void> AddTable(const Json& entry, std::string_view& rest);

  Json about_;
  std::vector<TableHead> tables_;
  std::vector<Block> blocks_;
  std::uint64_t unpacked_ = 0, cells_ = 0;  // of all blocks
};

}  // namespace probing::incident
