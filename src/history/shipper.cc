#include "history/shipper.h"

#include <algorithm>
#include <random>

#include "base/clock.h"
#include "base/text.h"
#include "history/feed.h"
#include "table/rows.h"

namespace probing::history {
namespace {

constexpr std::int64_t kRetryNs = 1'000'000'000;  // after a failure: a full disk stays full for a while
constexpr std::uint64_t kMaxBatchRows = 100'000;
constexpr std::size_t kMaxBatchBytes = 16UL << 20;

std::uint64_t NewBatchId() {
  static std::random_device random;
  return (static_cast<std::uint64_t>(random()) << 32) | random();
}

}  // namespace

Result<std::unique_ptr<Shipper>> Shipper::Open(const wire::StoreUrl& url, const std::string& spool) {
  ASSIGN_OR_RETURN(std::unique_ptr<Spool> opened, Spool::Open(spool));
  return std::unique_ptr<Shipper>(new Shipper(std::move(opened), url));
}

void Shipper::SetRings(const std::vector<RingEntry>& entries, std::vector<ScopedFd> files) {
  std::vector<Ring> gone = UpdateRings(rings_, entries, std::move(files));
  std::vector<Ring*> last;
  for (Ring& ring : gone) last.push_back(&ring);
  Ship(last, Which::kAll, 0);
  std::set<std::string> listed;
  for (const auto& [identity, ring] : rings_) listed.insert(store::RingName(ring.id));
  spool_->Forget(listed);
}

void Shipper::Ship(Which which, std::int64_t interval_ns) {
  if (which == Which::kDue && MonotonicNs() < retry_ns_) return;
  std::vector<Ring*> all;
  for (auto& [identity, ring] : rings_) all.push_back(&ring);
  Ship(all, which, interval_ns);
}

void Shipper::Ship(const std::vector<Ring*>& rings, Which which, std::int64_t interval_ns) {
  std::map<std::string, std::vector<Part>> pending;
  std::set<std::string> due;
  for (Ring* ring : rings) {
    for (ring::TableInfo& info : ring->reader.Tables()) {
      // A name that has no place in that of a file: such tables stay in memory.
      if (table::UnescapeName(table::EscapeName(info.name)) != info.name || !table::IsUtf8(info.name))
        continue;
      const std::string name = LowerCase(info.name);
      const std::uint64_t count = info.counters.written - ring->tables[name].seen;
      if (count == 0) continue;
      const bool is_due = which == Which::kAll || ring->entry.ended || IsPressing(info, count) ||
                          MonotonicNs() - last_ns_[name] >= interval_ns;
      if (is_due) due.insert(name);
      pending[name].push_back({ring, std::move(info)});
    }
  }
  for (const std::string& name : due) {
    const Result<void> shipped = ShipTable(name, pending[name]);
    problem_ = shipped.ok() ? "" : shipped.error().message;
    if (!shipped.ok()) {
      retry_ns_ = MonotonicNs() + kRetryNs;
      return;
    }
    last_ns_[name] = MonotonicNs();
  }
  if (!due.empty()) sender_->Wake();
}

// One batch for each set of columns: jobs may have tables of one name that differ.
Result<void> Shipper::ShipTable(const std::string& table, const std::vector<Part>& parts) {
  std::vector<Batch> batches;
  struct Read {
    Progress* progress;
    std::uint64_t seen;
    std::vector<table::HistoryFile> files;
  };
  std::vector<Read> read;
  for (const Part& part : parts) {
    Progress& progress = part.ring->tables[table];
    const std::string ring = store::RingName(part.ring->id);
    if (!progress.behind) {
      progress.behind = spool_->Position(table, ring);
      progress.is_first = progress.behind->next_row.empty();
    }
    Feed feed(part.ring->reader, part.info, *progress.behind, part.ring->about);
    const store::Shape shape = ShapeOf(table, feed);
    read.push_back({&progress, part.info.counters.written, {}});
    while (feed.NextFile()) {
      const auto fits = [&](const Batch& batch) {
        return batch.shape() == shape && batch.rows() < kMaxBatchRows && batch.size_bytes() < kMaxBatchBytes;
      };
      auto batch = std::ranges::find_if(batches, fits);
      if (batch == batches.end()) batch = batches.emplace(batches.end(), shape, NewBatchId());
      RETURN_IF_ERROR(batch->Add(feed, part.ring->entry.job, ring));
      read.back().files.push_back(feed.file());
    }
  }
  for (const Batch& batch : batches) {
    if (const Result<void> added = spool_->Add(batch); !added.ok()) {
      // Those before it are in: the spool knows how far that is.
      for (const Read& each : read) each.progress->behind.reset();
      return added.error();
    }
  }
  for (const Read& each : read) {
    for (const table::HistoryFile& file : each.files) Commit(table, *each.progress, file);
    each.progress->seen = each.seen;
    each.progress->is_first = false;
  }
  return {};
}

void Shipper::Commit(const std::string& table, Progress& progress, const table::HistoryFile& file) {
  std::uint64_t& next_row = progress.behind->next_row[file.lane];
  // What was overwritten before anybody wanted it is no loss of ours.
  if (file.first_row > next_row && !progress.is_first)
    lost_[table] += static_cast<std::int64_t>(file.first_row - next_row);
  next_row = file.end_row();
}

std::vector<StoreStatus> Shipper::status() const {
  std::vector<StoreStatus> all;
  for (auto& [table, status] : sender_->status()) {
    all.push_back(status);
    all.back().table = table;
    if (const auto lost = lost_.find(table); lost != lost_.end()) all.back().lost = lost->second;
    if (!problem_.empty()) all.back().problem = problem_;
  }
  return all;
}

}  // namespace probing::history
