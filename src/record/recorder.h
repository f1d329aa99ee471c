// Recorder: the tables this process writes, for as long as it is probed.
//
// One for the process; everything is static. The memory behind it is made when the first table or
// reader needs it. A TableHandle stays valid across eject, fork and a new start: it writes nowhere
// while nobody records, and into the new memory once somebody does again.
//
// Write() is a hot path: no lock, no allocation, except when the tables have been made anew since
// this one wrote last. Everything else is cold and thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ring/arena.h"
#include "table/typed_cell.h"

namespace probing::record {

class TableHandle {
 public:
  const std::string& name() const { return name_; }
  const std::vector<ring::Column>& columns() const { return columns_; }

  ring::WriteStatus Write(const ring::Cell* cells, std::uint32_t count);
  ring::WriteStatus Write(const table::WrittenRow auto& row) {
    const auto cells = row.Cells();
    return Write(cells.data(), cells.size());
  }

  // A text for many rows, looked up once (Table::Intern): good for WriteInterned() of this generation.
  ring::Cell Intern(std::uint32_t column, std::string_view text);
  std::uint64_t generation() const;
  // Nothing is written when the table has been made anew since.
  ring::WriteStatus WriteInterned(std::uint64_t generation, const table::WrittenRow auto& row) {
    return this->generation() == generation ? Write(row) : ring::WriteStatus::kOff;
  }

 private:
  friend class Recorder;
  ring::Table* Current();  // null: nothing is recorded
  TableHandle(std::string name, std::vector<ring::Column> columns)
      : name_(std::move(name)), columns_(std::move(columns)) {}

  const std::string name_;
  const std::vector<ring::Column> columns_;
  // Both belong together; a reader that sees the number sees the table that was stored before it.
  std::atomic<ring::Table*> table_{nullptr};
  std::atomic<std::uint64_t> generation_{0};
};

class Recorder {
 public:
  struct Limits {
    std::uint64_t max_memory = 256U << 20;
    std::uint64_t table_rows = 10'000;
  };

  // Rows are taken from now on. False, and without effect, when they are already.
  static bool Open(const Limits& limits);
  // Of what is recorded already, too.
  static void SetLimits(const Limits& limits);

  // No more rows are taken and the memory goes back to the system.
  enum class Users : std::uint8_t {
    kInside,   // a thread may be inside of Write(): what it looks at is left behind
    kOutside,  // none is, but somebody has a TableHandle, which stays
    kNone,     // nobody has one: everything goes
  };
  static void Close(Users users);

  // The handle of a table; the same one for the same name. Other columns than before are an error,
  // as are those of a declared table (table/registry.h). Without columns the declared ones are
  // meant. Works while nothing is recorded, too.
  static Result<TableHandle*> FindTable(std::string_view name, std::vector<ring::Column> columns);

  static bool Recording();

  // Runs `body` while nobody can fork, so that no child gets a descriptor of ours. Keep it short.
  static void WithoutForks(void (*body)(void* argument), void* argument);

  // The memory file, made now if there is none. It stays the recorder's.
  static Result<int> File();

  // Around fork(2): no other thread is inside of the recorder then. A child has none of its parent's
  // memory; kYes: it records into its own, made when it is needed.
  enum class Follow : std::uint8_t { kNo, kYes };
  static void BeforeFork();
  static void AfterForkInParent();
  static void InForkedChild(Follow follow);

 private:
  friend class TableHandle;
  static ring::Table* Renew(TableHandle& handle);
  // Grows when tables are made anew or end; a handle of another one has to ask.
  static std::atomic<std::uint64_t> generation_;
};

inline std::uint64_t TableHandle::generation() const {
  return Recorder::generation_.load(std::memory_order_acquire);
}

inline ring::Table* TableHandle::Current() {
  const bool current = generation_.load(std::memory_order_acquire) == generation();
  return current ? table_.load(std::memory_order_relaxed) : Recorder::Renew(*this);
}

inline ring::WriteStatus TableHandle::Write(const ring::Cell* cells, std::uint32_t count) {
  ring::Table* table = Current();
  return table == nullptr ? ring::WriteStatus::kOff : table->Write(cells, count);
}

inline ring::Cell TableHandle::Intern(std::uint32_t column, std::string_view text) {
  ring::Table* table = Current();
  return table == nullptr ? ring::Cell::String(text) : table->Intern(column, text);
}

}  // namespace probing::record
