#include "history/spool.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "base/text.h"
#include "history/folders.h"
#include "query/packing.h"

namespace probing::history {
namespace {

constexpr std::string_view kNew = ".new";
constexpr std::string_view kSent = ".sent";
constexpr std::int64_t kMaxTakenRows = 100'000;
constexpr std::int64_t kMaxTakenBytes = 16L << 20;

// The file has its name when all of it is on disk.
Result<void> WriteWhole(const std::string& directory, const std::string& name, std::string_view text) {
  const std::string temporary = directory + "/tmp";
  const auto write = [&]() -> Result<void> {
    const ScopedFd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return ErrnoError("write " + temporary);
    RETURN_IF_ERROR(WriteAll(file.get(), text));
    if (fdatasync(file.get()) != 0) return ErrnoError("write " + temporary);
    if (rename(temporary.c_str(), (directory + "/" + name).c_str()) != 0) return ErrnoError("write " + name);
    return {};
  };
  Result<void> written = write();
  if (!written.ok()) unlink(temporary.c_str());  // a full disk needs the room
  return written;
}

// "SEQUENCE~ROWS~TABLE.new"
std::optional<Spool::Entry> ParseName(const std::string& file) {
  Spool::Entry entry;
  entry.was_sent = file.ends_with(kSent);
  if (!entry.was_sent && !file.ends_with(kNew)) return std::nullopt;
  entry.name = file.substr(0, file.rfind('.'));
  std::string_view rest = entry.name;
  if (!ParseNumber(TakePart(rest, '~'), entry.sequence) || !ParseNumber(TakePart(rest, '~'), entry.rows))
    return std::nullopt;
  const std::optional<std::string> table = table::UnescapeName(rest);
  if (!table || entry.rows < 0) return std::nullopt;
  entry.table = *table;
  return entry;
}

std::string NameOf(std::uint64_t sequence, const Batch& batch) {
  return std::to_string(sequence) + "~" + std::to_string(batch.rows()) + "~" +
         table::EscapeName(batch.shape().table);
}

// Whether the process of "HOST~PID~CREATED" is there.
bool IsAlive(std::string_view ring) {
  ring = ring.substr(0, ring.rfind('~'));
  return access(("/proc/" + std::string(ring.substr(ring.rfind('~') + 1))).c_str(), F_OK) == 0;
}

}  // namespace

Result<std::unique_ptr<Spool>> Spool::Open(const std::string& directory) {
  RETURN_IF_ERROR(MakeFolders("", directory.substr(1)));
  ASSIGN_OR_RETURN(ScopedFd lock, LockFile(directory + "/lock", directory));
  std::unique_ptr<Spool> spool(new Spool(directory, std::move(lock)));
  spool->ReadPositions();
  spool->ReadDirectory();
  return spool;
}

void Spool::SetMaxBytes(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  max_bytes_ = bytes;
}

std::string Spool::PathOf(const Entry& entry) const {
  return directory_ + "/" + entry.name + std::string(entry.was_sent ? kSent : kNew);
}

void Spool::ReadDirectory() {
  const Result<std::vector<std::string>> names = ListDirectory(directory_);
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
    std::optional<Entry> entry = ParseName(name);
    struct stat info{};
    if (!entry || stat((directory_ + "/" + name).c_str(), &info) != 0) continue;
    entry->bytes = info.st_size;
    total_bytes_ += entry->bytes;
    next_sequence_ = std::max(next_sequence_, entry->sequence + 1);
    counts_[entry->table].waiting += entry->rows;
    entries_.push_back(std::move(*entry));
  }
  entries_.sort([](const Entry& a, const Entry& b) { return a.sequence < b.sequence; });
  // Whoever wrote the last batch may have been killed before it wrote the positions.
  if (!entries_.empty()) {
    if (const std::optional<Batch> last = Load(entries_.back())) Note(*last);
  }
}

void Spool::Note(const Batch& batch) {
  for (const RowRange& range : batch.ranges()) {
    std::uint64_t& next = positions_[batch.shape().table][range.ring][range.lane];
    next = std::max(next, range.first_row + range.rows);
  }
}

ring::Cursor Spool::Position(const std::string& table, const std::string& ring) const {
  ring::Cursor cursor;
  if (const auto rings = positions_.find(table); rings != positions_.end()) {
    if (const auto lanes = rings->second.find(ring); lanes != rings->second.end())
      cursor.next_row = lanes->second;
  }
  return cursor;
}

void Spool::Forget(const std::set<std::string>& all_but) {
  for (auto& [table, rings] : positions_)
    std::erase_if(rings,
                  [&](const auto& ring) { return !all_but.contains(ring.first) && !IsAlive(ring.first); });
}

void Spool::ReadPositions() {
  const Result<std::string> text = ReadFile(directory_ + "/positions");
  if (!text.ok()) return;
  query::Unpacker unpacker(*text);
  while (!unpacker.done()) {
    std::string table;
    std::string ring;
    std::uint64_t lane = 0;
    std::uint64_t next_row = 0;
    if (!unpacker.Get(table) || !unpacker.Get(ring) || !unpacker.Get(lane) || !unpacker.Get(next_row)) return;
    positions_[table][ring][lane] = next_row;
  }
}

Result<void> Spool::WritePositions() {
  query::Packer packer;
  for (const auto& [table, rings] : positions_) {
    for (const auto& [ring, lanes] : rings) {
      for (const auto& [lane, next_row] : lanes) packer.Put(table).Put(ring).Put(lane).Put(next_row);
    }
  }
  return WriteWhole(directory_, "positions", packer.Take());
}

Result<void> Spool::Add(const Batch& batch) {
  const std::string text = batch.Encode();
  Entry entry;
  {
    const std::lock_guard lock(mutex_);
    if (!MakeRoom(static_cast<std::int64_t>(text.size()))) {
      counts_[batch.shape().table].dropped += static_cast<std::int64_t>(batch.rows());
      Note(batch);
      return {};
    }
    entry.sequence = next_sequence_++;
  }
  entry.name = NameOf(entry.sequence, batch);
  entry.table = batch.shape().table;
  entry.rows = static_cast<std::int64_t>(batch.rows());
  entry.bytes = static_cast<std::int64_t>(text.size());
  RETURN_IF_ERROR(WriteWhole(directory_, entry.name + std::string(kNew), text));
  Note(batch);
  {
    // It is sent when its positions are on disk, so that nobody can go on before it.
    const std::lock_guard lock(mutex_);
    counts_[entry.table].waiting += entry.rows;
    total_bytes_ += entry.bytes;
  }
  const Result<void> noted = WritePositions();
  const std::lock_guard lock(mutex_);
  entries_.push_back(std::move(entry));
  return noted;
}

// REQUIRES: the mutex is held.
bool Spool::MakeRoom(std::int64_t bytes) {
  for (auto it = entries_.begin(); it != entries_.end() && total_bytes_ + bytes > max_bytes_;) {
    const auto current = it++;
    if (!taken_.contains(current->sequence)) Drop(current);
  }
  return total_bytes_ + bytes <= max_bytes_;
}

// REQUIRES: the mutex is held.
void Spool::Drop(std::list<Entry>::iterator entry) {
  unlink(PathOf(*entry).c_str());
  total_bytes_ -= entry->bytes;
  counts_[entry->table].waiting -= entry->rows;
  counts_[entry->table].dropped += entry->rows;
  entries_.erase(entry);
}

std::vector<Spool::Entry> Spool::Take(const std::set<std::string>& without) {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> taken;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  for (const Entry& entry : entries_) {
    if (without.contains(entry.table) || (!taken.empty() && entry.table != taken.front().table)) continue;
    rows += entry.rows;
    bytes += entry.bytes;
    // No more than half of the room: what is being sent cannot be dropped for what is new.
    if (!taken.empty() && (rows > kMaxTakenRows || bytes > std::min(kMaxTakenBytes, max_bytes_ / 2))) break;
    taken.push_back(entry);
    taken_.insert(entry.sequence);
  }
  return taken;
}

std::optional<Batch> Spool::Load(const Entry& entry) {
  const Result<std::string> text = ReadFile(PathOf(entry));
  std::optional<Batch> batch = text.ok() ? Batch::Decode(*text) : std::nullopt;
  if (batch) return batch;
  const std::lock_guard lock(mutex_);
  const auto damaged = std::ranges::find(entries_, entry.sequence, &Entry::sequence);
  if (damaged != entries_.end()) Drop(damaged);
  return std::nullopt;
}

void Spool::MarkSent(Entry& entry) {
  if (entry.was_sent) return;
  Entry sent = entry;
  sent.was_sent = true;
  if (rename(PathOf(entry).c_str(), PathOf(sent).c_str()) != 0) return;
  entry = sent;
  const std::lock_guard lock(mutex_);
  const auto same = std::ranges::find(entries_, entry.sequence, &Entry::sequence);
  if (same != entries_.end()) same->was_sent = true;
}

void Spool::PutBack() {
  const std::lock_guard lock(mutex_);
  taken_.clear();
}

void Spool::Remove(const Entry& entry) {
  unlink(PathOf(entry).c_str());
  const std::lock_guard lock(mutex_);
  taken_.erase(entry.sequence);
  const auto same = std::ranges::find(entries_, entry.sequence, &Entry::sequence);
  if (same == entries_.end()) return;
  total_bytes_ -= same->bytes;
  counts_[same->table].waiting -= same->rows;
  entries_.erase(same);
}

std::map<std::string, Spool::Counts> Spool::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace probing::history
