// Where the rows of a table come from when a query asks for them.
//
// The engine asks a Source for Parts; each part belongs to one target and is read by one thread
// at a time through a Cursor, which writes values straight into the engine's column vectors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "table/text.h"
#include "table/types.h"

namespace probing::table {

inline constexpr std::size_t kBatchRows = 2048;

// A process that rows are about. `ring_fds` are memory files with its stored tables: the probe's
// own, and the one probingd writes about it.
struct Target {
  std::int64_t pid = 0;  // negative: known by files only, there is no such process
  std::optional<std::int64_t> rank;
  std::string host;
  std::string job;            // "" outside a job
  bool shows_locals = false;  // to the one who asks: they are for the right to eval
  bool may_hold = false;      // its threads, for a moment: for the right to profile
  bool selected = true;       // `python.x` reads selected targets only, `global.python.x` all
  std::vector<std::shared_ptr<const ScopedFd>> ring_fds;  // shared by all parts that read them
};

// Rows outside of it may be left out; they need not be (the engine still filters).
struct TimeRange {
  std::int64_t from_ns = std::numeric_limits<std::int64_t>::min();
  std::int64_t to_ns = std::numeric_limits<std::int64_t>::max();
};

// Files with rows that are, or were, in rings (history_files.h).
struct HistoryScope {
  std::string directory;
  std::optional<std::int64_t> pid;                // only rows about this process
  std::optional<std::string> job = std::nullopt;  // only rows about processes of this job
};

struct ScanRequest {
  std::vector<std::size_t> columns;  // indexes into Table::columns; the others cost nothing
  TimeRange time;
  std::vector<const Target*> targets;  // outlive the cursors
  std::optional<HistoryScope> history;
  bool is_recorded = false;  // targets are known by a file only, whatever their pid: no process may be read
};

// Memory for one column of a batch. Values by type: int64_t (also timestamps, in ns), double,
// bool (one byte, 0 or 1), Text (strings are valid UTF-8; bytes are anything).
class ColumnOut {
 public:
  ColumnOut(void* data, std::uint64_t* validity) : data_(data), validity_(validity) {}

  template <typename T>
  T* values() {
    return static_cast<T*>(data_);
  }
  // All rows are valid until they are said to be NULL.
  void SetNull(std::size_t row) { validity_[row / 64] &= ~(std::uint64_t{1} << (row % 64)); }
  std::uint64_t* validity() { return validity_; }  // one bit for each row, kBatchRows / 64 words

 private:
  void* data_;
  std::uint64_t* validity_;
};

class Cursor {
 public:
  virtual ~Cursor() = default;

  // Writes up to kBatchRows rows, one ColumnOut for each requested column, and returns how many;
  // 0 at the end. Long strings stay where they are until the next call or the cursor's end.
  virtual Result<std::size_t> Next(std::span<ColumnOut> columns) = 0;

  // Why these are not all rows: the query says it. "" when they are.
  virtual std::string_view note() const { return {}; }
};

struct Part {
  const Target* target = nullptr;  // nullptr: about no target; pid and rank are NULL
  std::function<Result<std::unique_ptr<Cursor>>()> open;
};

// Thread-safe: several queries and several threads of one query use it at the same time.
class Source {
 public:
  virtual ~Source() = default;
  virtual const Table& table() const = 0;
  virtual Result<std::vector<Part>> Parts(const ScanRequest& request) = 0;
};

}  // namespace probing::table
