// Spool: batches that wait for the store, in a directory of bounded size.
//
// A batch is a file, there as a whole or not at all, until the store has it:
//
//   DIR/SEQUENCE~ROWS~TABLE.new    was never sent
//   DIR/SEQUENCE~ROWS~TABLE.sent   was sent: whether it has arrived has to be asked before it is sent again
//   DIR/positions                  which rows of which rings are in batches, or were
//
// When there is no room, the oldest batches go, and are counted. One process at a time has it. Thread-safe:
// one thread adds, another takes.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/scoped_fd.h"
#include "history/batch.h"
#include "ring/scan.h"

namespace probing::history {

class Spool {
 public:
  struct Entry {
    std::string name;  // of the file, without what follows the last dot
    std::string table;
    std::uint64_t sequence = 0;
    std::int64_t rows = 0;
    std::int64_t bytes = 0;
    bool was_sent = false;
  };
  struct Counts {
    std::int64_t waiting = 0;  // rows
    std::int64_t dropped = 0;  // for want of room, or because their file was damaged
  };

  // Makes the directory when it is not there; it is the user's alone then. Fails while another process has
  // it.
  static Result<std::unique_ptr<Spool>> Open(const std::string& directory);

  void SetMaxBytes(std::int64_t bytes);

  // Where to go on reading each lane of a table.
  ring::Cursor Position(const std::string& table, const std::string& ring) const;

  // These rings are all there are. Where to go on in others, whose processes have ended, nobody will ask.
  void Forget(const std::set<std::string>& all_but);

  Result<void> Add(const Batch& batch);

  // The oldest whose table is not among `without`, and those of its table behind it that make one insert with
  // it. They stay where they are, and are not dropped until Remove() or PutBack().
  std::vector<Entry> Take(const std::set<std::string>& without);
  // Nothing when the file is damaged or gone: then it was dropped.
  std::optional<Batch> Load(const Entry& entry);
  // From now on it may have arrived.
  void MarkSent(Entry& entry);
  void PutBack();
  void Remove(const Entry& entry);

  std::map<std::string, Counts> counts() const;

 private:
  Spool(std::string directory, ScopedFd lock) : directory_(std::move(directory)), lock_(std::move(lock)) {}
  void ReadDirectory();
  void ReadPositions();
  void Note(const Batch& batch);
  Result<void> WritePositions();
  void Drop(std::list<Entry>::iterator entry);
  bool MakeRoom(std::int64_t bytes);
  std::string PathOf(const Entry& entry) const;

  using Lanes = std::map<std::uint64_t, std::uint64_t>;  // the row behind the last one
  using Rings = std::map<std::string, Lanes>;

  const std::string directory_;
  const ScopedFd lock_;
  std::map<std::string, Rings> positions_;  // by table
  mutable std::mutex mutex_;                // of what follows
  std::int64_t max_bytes_ = 1LL << 30;
  std::list<Entry> entries_;  // the oldest first
  std::int64_t total_bytes_ = 0;
  std::uint64_t next_sequence_ = 1;
  std::set<std::uint64_t> taken_;  // which are being sent
  std::map<std::string, Counts> counts_;
};

}  // namespace probing::history
