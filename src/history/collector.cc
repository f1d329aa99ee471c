#include "history/collector.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/text.h"
#include "table/rows.h"

namespace probing::history {
namespace {

constexpr std::int64_t kRetryNs = 1'000'000'000;  // after a failure: a full disk stays full for a while
// This many files of a size are merged into one of the next size, so that a day has tens and not
// thousands of them.
constexpr std::size_t kMergeFiles = 16;
constexpr std::uint64_t kMaxMergedRows = 2'000'000;

int SizeClass(std::uint64_t rows) {
  int size_class = 0;
  while (rows >= 64 * kMergeFiles) {
    rows /= kMergeFiles;
    ++size_class;
  }
  return size_class;
}

}  // namespace

void Collector::SetRings(const std::vector<RingEntry>& entries, std::vector<ScopedFd> files) {
  for (Ring& ring : UpdateRings(rings_, entries, std::move(files))) CollectRing(ring, Which::kAll, 0);
}

void Collector::Collect(Which which, std::int64_t interval_ns) {
  if (which == Which::kDue && MonotonicNs() < retry_ns_) return;
  for (auto& [identity, ring] : rings_) CollectRing(ring, which, interval_ns);
}

// What files have of it already, whoever wrote them.
Collector::Progress& Collector::ProgressOf(Ring& ring, const ring::TableInfo& info) {
  const std::string name = LowerCase(info.name);
  const auto [found, is_new] = ring.tables.try_emplace(name);
  Progress& progress = found->second;
  if (!is_new) return progress;
  progress.files = table::ListHistory(writer_.directory(), {.table = name, .ring = ring.id});
  progress.written = table::CursorBehind(progress.files, ring.id);
  progress.is_first = progress.files.empty();
  progress.status.pid = ring.entry.pid;
  progress.status.table = name;
  progress.status.files = static_cast<std::int64_t>(progress.files.size());
  for (const table::HistoryFile& file : progress.files)
    progress.status.rows += static_cast<std::int64_t>(file.rows);
  return progress;
}

void Collector::CollectRing(Ring& ring, Which which, std::int64_t interval_ns) {
  for (const ring::TableInfo& info : ring.reader.Tables()) {
    // A name that has no place in a path as it is: such tables stay in memory.
    if (table::UnescapeName(table::EscapeName(info.name)) != info.name || !table::IsUtf8(info.name)) continue;
    Progress& progress = ProgressOf(ring, info);
    const std::uint64_t pending = info.counters.written - progress.seen;
    const bool is_due = which == Which::kAll || ring.entry.ended || IsPressing(info, pending) ||
                        MonotonicNs() - progress.last_ns >= interval_ns;
    if (pending == 0 || !is_due) continue;
    if (const Result<void> collected = CollectTable(ring, info, progress); !collected.ok()) {
      problem_ = collected.error().message;
      retry_ns_ = MonotonicNs() + kRetryNs;
      return;
    }
    problem_.clear();
    progress.seen = info.counters.written;
    progress.last_ns = MonotonicNs();
    progress.is_first = false;
  }
}

Result<void> Collector::CollectTable(Ring& ring, const ring::TableInfo& info, Progress& progress) {
  table::HistoryFile place;
  place.job = ring.entry.job;
  place.rank = ring.entry.rank;
  place.day = table::DayOf(WallNs());
  place.table = progress.status.table;
  place.ring = ring.id;
  Feed feed(ring.reader, info, progress.written, ring.about);
  std::set<std::uint64_t> lanes;
  while (feed.NextFile()) {
    ASSIGN_OR_RETURN(const table::HistoryFile file, writer_.Write(feed, place));
    Commit(progress, file);
    lanes.insert(file.lane);
  }
  for (const std::uint64_t lane : lanes) MergeSmallFiles(progress, lane, place.day);
  return {};
}

void Collector::Commit(Progress& progress, const table::HistoryFile& file) {
  std::uint64_t& next_row = progress.written.next_row[file.lane];
  // What was overwritten before anybody wanted history is no loss of ours.
  if (file.first_row > next_row && !progress.is_first)
    progress.status.lost += static_cast<std::int64_t>(file.first_row - next_row);
  next_row = file.end_row();
  progress.status.rows += static_cast<std::int64_t>(file.rows);
  ++progress.status.files;
  const auto place = std::ranges::find_if(
      progress.files, [&](const table::HistoryFile& other) { return other.lane > file.lane; });
  progress.files.insert(place, file);
}

// The last files of a lane, as long as they are of one day, without a gap and no larger than the
// last. Nothing depends on it: what cannot be merged stays as it is.
void Collector::MergeSmallFiles(Progress& progress, std::uint64_t lane, const std::string& day) {
  const auto end =
      std::ranges::find_if(progress.files, [&](const table::HistoryFile& file) { return file.lane > lane; });
  if (end == progress.files.begin()) return;
  auto begin = std::prev(end);
  const int size_class = SizeClass(begin->rows);
  std::uint64_t rows = begin->rows;
  while (begin != progress.files.begin()) {
    const auto before = std::prev(begin);
    const bool fits = before->lane == lane && before->day == day && before->end_row() == begin->first_row &&
                      SizeClass(before->rows) <= size_class && rows + before->rows <= kMaxMergedRows;
    if (!fits) break;
    begin = before;
    rows += before->rows;
  }
  if (static_cast<std::size_t>(end - begin) < kMergeFiles) return;
  Result<table::HistoryFile> merged = writer_.Merge({begin, end});
  if (!merged.ok()) {
    progress.files.erase(begin, end);  // one of them is gone, or the disk is full: not again
    return;
  }
  progress.status.files -= end - begin - 1;
  *begin = std::move(*merged);
  progress.files.erase(std::next(begin), end);
  MergeSmallFiles(progress, lane, day);  // it may have been the last of its size
}

std::vector<TableStatus> Collector::status() const {
  std::vector<TableStatus> all;
  for (const auto& [identity, ring] : rings_) {
    for (const auto& [name, progress] : ring.tables) all.push_back(progress.status);
  }
  return all;
}

}  // namespace probing::history
