// Shipper: rows of all rings on their way to the store.
//
// Rows become due as they do for files (collector.h), but a batch has those of all targets: a store likes few
// large inserts. What is due goes into the spool, and from there to the server, on another thread: neither a
// slow server nor one that is away holds up the reading of rings.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "history/messages.h"
#include "history/opened_ring.h"
#include "history/sender.h"
#include "history/spool.h"

namespace probing::history {

class Shipper {
 public:
  // `spool` is a directory of its own. Fails while another process of this host has it.
  static Result<std::unique_ptr<Shipper>> Open(const wire::StoreUrl& url, const std::string& spool);

  void SetMaxBytes(std::int64_t bytes) { spool_->SetMaxBytes(bytes); }
  // All rings there are. Those that are not among them any more are read for a last time.
  void SetRings(const std::vector<RingEntry>& entries, std::vector<ScopedFd> files);

  enum class Which : std::uint8_t { kDue, kAll };
  void Ship(Which which, std::int64_t interval_ns);
  // What is in the spool now may still go, for as long.
  void Drain(std::int64_t timeout_ms) { sender_->Drain(timeout_ms); }

  std::vector<StoreStatus> status() const;

 private:
  struct Progress {
    std::optional<ring::Cursor> behind;  // what is in batches
    std::uint64_t seen = 0;              // of the ring's counter, when all of it was read
    bool is_first = true;                // nothing was read yet
  };
  struct Ring : OpenedRing {
    std::map<std::string, Progress> tables;
  };
  // What is new of a table in a ring.
  struct Part {
    Ring* ring;
    ring::TableInfo info;
  };

  explicit Shipper(std::unique_ptr<Spool> spool, const wire::StoreUrl& url)
      : spool_(std::move(spool)), sender_(std::make_unique<Sender>(*spool_, url)) {}
  void Ship(const std::vector<Ring*>& rings, Which which, std::int64_t interval_ns);
  Result<void> ShipTable(const std::string& table, const std::vector<Part>& parts);
  void Commit(const std::string& table, Progress& progress, const table::HistoryFile& file);

  std::unique_ptr<Spool> spool_;
  std::unique_ptr<Sender> sender_;  // uses the spool
  std::map<FileIdentity, Ring> rings_;
  std::map<std::string, std::int64_t> last_ns_;  // when a table was shipped
  std::map<std::string, std::int64_t> lost_;     // rows that were overwritten before they were read
  std::int64_t retry_ns_ = 0;                    // not before
  std::string problem_;                          // why the last batch could not be written
};

}  // namespace probing::history
