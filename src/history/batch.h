// Batch: rows of one table that go to the store together, in the form in which they are inserted.
//
// It says which rows of which rings it has, so that after a doubt those can be asked for, and so that whoever
// goes on knows where. As bytes it is a file of the spool.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "history/feed.h"
#include "store/schema.h"

namespace probing::history {

// Rows [first, first + rows) of a lane.
struct RowRange {
  std::string ring;  // store::RingName
  std::uint64_t lane = 0;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
};

class Batch {
 public:
  Batch(store::Shape shape, std::uint64_t id) : shape_(std::move(shape)), id_(id) {}

  // Takes the rows of the feed's current file (Feed::NextFile). `job` and `ring` say whose they are.
  // REQUIRES: the feed has the columns of shape().
  Result<void> Add(Feed& feed, std::string_view job, const std::string& ring);

  const store::Shape& shape() const { return shape_; }
  std::uint64_t id() const { return id_; }
  std::uint64_t rows() const { return lengths_.size(); }
  std::size_t size_bytes() const { return data_.size(); }
  const std::vector<RowRange>& ranges() const { return ranges_; }
  std::int64_t min_ns() const { return min_ns_; }
  std::int64_t max_ns() const { return max_ns_; }

  // In RowBinary. With `there`, which has rows by ring, lane and number, without those.
  const std::string& data() const { return data_; }
  std::string DataWithout(const std::vector<RowRange>& there) const;

  std::string Encode() const;
  static std::optional<Batch> Decode(std::string_view text);

 private:
  store::Shape shape_;
  std::uint64_t id_ = 0;
  std::int64_t min_ns_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t max_ns_ = std::numeric_limits<std::int64_t>::min();
  std::vector<RowRange> ranges_;
  std::vector<std::uint32_t> lengths_;  // of each row
  std::string data_;
};

// The columns of a feed that go to the store.
store::Shape ShapeOf(std::string table, const Feed& feed);

}  // namespace probing::history
