// Sender: brings what is in a spool to the store, on a thread of its own, the oldest first.
//
// Batches of a table that wait go in one insert. A batch leaves the spool when the server has said that it
// has it. When the outcome of an insert is not known, because the connection broke or the server failed in
// the middle, the server is asked which rows of the batch it has before the others are sent again. A server
// that is away is tried again, less and less often; a table that it refuses does not hold up the others.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "history/messages.h"
#include "history/spool.h"
#include "store/client.h"

namespace probing::history {

class Sender {
 public:
  // REQUIRES: the spool outlives this.
  Sender(Spool& spool, wire::StoreUrl url);
  // Ends when the batch at hand is through or has failed.
  ~Sender();
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Something has come into the spool.
  void Wake();
  // Waits until the spool is empty or nothing can be sent, for at most this long.
  void Drain(std::int64_t timeout_ms);

  // By table: what was sent since this began, and why the last try failed.
  std::map<std::string, StoreStatus> status() const;

 private:
  enum class Outcome : std::uint8_t { kArrived, kRefused, kAway };

  void Run() noexcept;
  bool SendOne();  // false when there is nothing that could be sent now
  Outcome Send(std::vector<Spool::Entry>& entries);
  Result<void> PrepareTables(const store::Shape& shape);
  Result<void> PrepareTable(const store::Shape& shape);
  Result<void> AddColumns(const store::Shape& shape, const std::string& stored);
  // Which rows of the batch the store has; an error while that is not known.
  Result<std::vector<RowRange>> RowsThere(const Batch& batch);
  Result<std::string> Ask(std::string sql, store::Fields settings = {}, std::string_view data = {});
  void Fail(const std::string& table, const Error& error);

  Spool& spool_;
  const store::Client client_;
  const std::string insert_prefix_;                 // of their names at the server
  std::vector<store::Shape> prepared_;              // their tables have all that is needed
  std::map<std::string, std::int64_t> not_before_;  // when a refused table is tried again
  bool has_declared_ = false;                       // all declared tables were made
  bool is_away_ = false;                            // when it was asked last it did not answer
  std::int64_t away_until_ns_ = 0;
  std::int64_t pause_ns_;

  mutable std::mutex mutex_;  // of what follows
  std::condition_variable woken_;
  std::condition_variable idle_;
  bool has_news_ = true;
  bool is_idle_ = false;
  bool leaving_ = false;
  std::map<std::string, StoreStatus> status_;
  std::string away_problem_;  // while it is
  std::thread thread_;        // last: it uses the others
};

}  // namespace probing::history
