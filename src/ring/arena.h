// Arena: the tables that a process writes, in one memory file which others read.
//
//   ASSIGN_OR_RETURN(auto arena, Arena::Create({}));
//   ASSIGN_OR_RETURN(Table* steps, arena->AddTable({"train.steps", {{"time", kTimestamp}, …}}));
//
// A reader opens fd() as /proc/PID/fd/N, or gets it sent; see reader.h.
//
// Fork: a child has the object but not the memory. Its writes return kOff and cost nothing, its
// destructor leaves alone what is not there. It inherits the descriptor unless somebody closes it,
// and makes an Arena of its own if it wants one. The one thing that is not survived: a signal
// handler that interrupts Write(), forks, and in the child returns into it.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "ring/table.h"

namespace probing::ring {

struct ArenaOptions {
  std::uint64_t max_memory = 256U << 20;
  std::uint64_t dictionary_bytes = 1U << 20;
  // Where the rings live. Empty: a memfd. Tests give a file on a small tmpfs.
  ScopedFd file;
};

class Arena {
 public:
  static Result<std::unique_ptr<Arena>> Create(ArenaOptions options);
  // REQUIRES: no thread is inside a Table's function, and none comes.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Thread-safe, not for hot paths. The table lives as long as the arena. Asking again for a table
  // with the same name and columns returns it; with other columns it is an error.
  Result<Table*> AddTable(TableOptions options);
  // Null when there is none.
  Table* FindTable(std::string_view name);

  // Below what is in use, whole lanes are given up, the largest first, until it is kept; their rows
  // count as overwritten.
  void SetMaxMemory(std::uint64_t bytes);
  std::uint64_t allocated_bytes() const { return file_->allocated_bytes(); }

  // From now on every write returns kOff, and the memory of all lanes goes back to the system. A
  // thread may still be on its way into Write(); the object has to stay until none is.
  void Close();

  int fd() const { return file_->fd(); }

 private:
  explicit Arena(std::unique_ptr<SegmentFile> file) : file_(std::move(file)), dictionary_(file_.get()) {}

  std::unique_ptr<SegmentFile> file_;
  Dictionary dictionary_;
  std::atomic<std::uint64_t> next_lane_id_{1};
  std::mutex mutex_;  // of tables_; never taken by a write
  std::vector<std::unique_ptr<Table>> tables_;
};

}  // namespace probing::ring
