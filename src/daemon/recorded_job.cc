#include "daemon/recorded_job.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "base/data_tree.h"
#include "base/file.h"
#include "base/scoped_fd.h"
#include "base/text.h"
#include "table/flight_rows.h"
#include "table/registry.h"
#include "table/stored.h"
#include "trace/memory_snapshot.h"
#include "trace/reader.h"
#include "trace/rows.h"
#include "trace/timeline.h"

namespace probing::daemon {
namespace {

using table::FlightEntry;
using table::FlightRecording;

constexpr std::size_t kMostRanks = 4096;
constexpr std::size_t kMostTraces = 256;
constexpr off_t kMostFileBytes = off_t{256} << 20;
constexpr off_t kMostSnapshotBytes = off_t{512} << 20;
constexpr std::size_t kMostSnapshotValues = 16'000'000;
constexpr std::int64_t kMostRank = 1 << 24;
constexpr std::size_t kMostNamed = 8;  // ranks of a version

// The number at the end of a recording's name; nothing for other files.
std::optional<std::int64_t> RankOf(std::string_view name) {
  for (const std::string_view suffix : {".json", ".pickle", ".pkl"}) {
    if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  }
  const std::size_t digits = name.find_last_not_of("0123456789");
  const bool is_recording =
      digits != std::string_view::npos && (name[digits] == '_' || name[digits] == '-') &&
      (name.find("dump") != std::string_view::npos || name.find("trace") != std::string_view::npos);
  std::int64_t rank = 0;
  if (!is_recording || !ParseNumber(name.substr(digits + 1), rank) || rank > kMostRank) return std::nullopt;
  return rank;
}

// Rank → path.
std::map<std::int64_t, std::string> FindRecordings(const std::string& directory) {
  std::map<std::int64_t, std::string> found;
  const Result<std::vector<std::string>> names = ListDirectory(directory);
  if (!names.ok()) return found;
  for (const std::string& name : *names) {
    if (const std::optional<std::int64_t> rank = RankOf(name))
      found.try_emplace(*rank, directory + "/" + name);
  }
  return found;
}

// As torch.profiler.tensorboard_trace_handler() names them, of each rank one or more.
std::vector<std::string> FindTraces(const std::string& directory) {
  std::vector<std::string> found;
  const Result<std::vector<std::string>> names = ListDirectory(directory);
  if (!names.ok()) return found;
  for (const std::string& name : *names) {
    if (name.ends_with(".pt.trace.json") || name.ends_with(".pt.trace.json.gz"))
      found.push_back(directory + "/" + name);
  }
  std::ranges::sort(found);
  return found;
}

Result<ring::Table*> AddTable(ring::Arena& arena, std::string_view name, std::size_t rows) {
  ring::TableOptions options{
      .name = std::string(name), .columns = {}, .rows = std::max<std::uint64_t>(rows, 1)};
  for (const table::Column& column : table::FindTable(name)->columns)
    options.columns.push_back(table::InRing(column));
  return arena.AddTable(std::move(options));
}

Result<void> WriteTables(const FlightRecording& recording, std::int64_t time_ns, ring::Arena& arena) {
  const std::size_t count = recording.entries.size();
  ASSIGN_OR_RETURN(ring::Table* const starts,
                   AddTable(arena, table::PythonCollectiveStartsRow::kTable, count));
  ASSIGN_OR_RETURN(ring::Table* const ends, AddTable(arena, table::PythonCollectivesRow::kTable, count));
  ASSIGN_OR_RETURN(ring::Table* const groups,
                   AddTable(arena, table::PythonProcessGroupsRow::kTable, recording.groups.size()));
  for (const FlightEntry& entry : recording.entries) {
    const std::string members = MembersOf(recording, entry.group);
    const auto start = CollectiveStartRow(entry, members).Cells();
    starts->Write(start.data(), start.size());
    if (!entry.is_over) continue;
    const auto end = CollectiveRow(entry, members).Cells();
    ends->Write(end.data(), end.size());
  }
  for (const auto& [name, group] : recording.groups) {
    const std::string members = MembersOf(recording, name);
    const auto row = ProcessGroupRow(time_ns, name, group, members).Cells();
    groups->Write(row.data(), row.size());
  }
  return {};
}

bool IsJson(std::string_view bytes) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && bytes[first] == '{';
}

// Whether it begins as pickles of protocol 2 and later do, with which torch saves snapshots.
bool IsPickle(const std::string& path) {
  const ScopedFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  unsigned char first[2] = {};
  return file.valid() && read(file.get(), first, sizeof first) == sizeof first && first[0] == 0x80 &&
         first[1] >= 2 && first[1] <= 5;
}

}  // namespace

bool RecordedJob::IsIn(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return false;
  return S_ISREG(info.st_mode) || !FindRecordings(path).empty() || !FindTraces(path).empty();
}

std::string RecordedJob::VersionOf(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return "";
  return std::to_string(info.st_ino) + " " + std::to_string(info.st_size) + " " +
         std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec);
}

Result<std::shared_ptr<const RecordedJob>> RecordedJob::Load(const std::string& path,
                                                             std::size_t most_events) {
  auto job = std::make_shared<RecordedJob>();
  job->path_ = path;
  job->name_ = path.substr(path.rfind('/') + 1);
  job->version_ = VersionOf(path);
  RETURN_IF_ERROR(job->Load(most_events));
  return std::shared_ptr<const RecordedJob>(std::move(job));
}

Result<void> RecordedJob::Load(std::size_t most_events) {
  struct stat info{};
  if (stat(path_.c_str(), &info) != 0) return ErrnoError("look at " + path_);
  if (S_ISREG(info.st_mode) && incident::IsIncident(path_)) {
    Result<std::unique_ptr<const incident::Contents>> contents = incident::Contents::Load(path_);
    if (!contents.ok())
      return Error{contents.error().code, path_ + ": " + contents.error().message, contents.error().hint};
    incident_ = std::move(*contents);
    targets_ = incident_->targets();
    problems_ = incident_->problems();
    return {};
  }
  if (!S_ISDIR(info.st_mode)) {
    const std::int64_t written_ns = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec;
    Result<void> added =
        IsPickle(path_) ? AddMemorySnapshot(path_, written_ns, most_events) : AddTrace(path_, most_events);
    if (!added.ok())
      return Error{added.error().code, path_ + ": " + added.error().message, added.error().hint};
    return {};
  }
  if (!FindRecordings(path_).empty()) return LoadRecordings();
  const std::vector<std::string> traces = FindTraces(path_);
  if (traces.size() > kMostTraces) {
    return Error{Code::kUsage, path_ + " has " + std::to_string(traces.size()) + " traces",
                 "at most " + std::to_string(kMostTraces) + " are read: copy those that matter"};
  }
  for (const std::string& trace : traces) {
    if (const Result<void> added = AddTrace(trace, most_events / traces.size()); !added.ok())
      problems_.push_back(trace + " is left out: " + added.error().message);
  }
  if (targets_.empty())
    return Error{Code::kFailed, "no trace in " + path_ + " can be read", problems_.front()};
  return {};
}

Result<void> RecordedJob::LoadRecordings() {
  const std::map<std::int64_t, std::string> files = FindRecordings(path_);
  if (files.size() > kMostRanks) {
    return Error{Code::kUsage, path_ + " has recordings of " + std::to_string(files.size()) + " ranks",
                 "at most " + std::to_string(kMostRanks) + " are read: copy those that matter"};
  }
  for (const auto& [rank, path] : files) {
    if (const Result<void> added = Add(rank, path); !added.ok())
      problems_.push_back(path + " is left out: " + added.error().message);
  }
  AddMissing();
  CompareVersions();
  if (arenas_.empty())
    return Error{Code::kFailed, "no recording in " + path_ + " can be read", problems_.front()};
  return {};
}

Result<void> RecordedJob::AddTrace(const std::string& path, std::size_t most_events) {
  ASSIGN_OR_RETURN(const std::unique_ptr<trace::ByteSource> source, trace::ByteSource::Open(path));
  ASSIGN_OR_RETURN(trace::ReadTrace trace, trace::Read(*source, most_events));
  if (!trace.problem.empty()) problems_.push_back(path + ": " + trace.problem);
  trace::Arrange(trace.events);
  ASSIGN_OR_RETURN(trace::Rings rings, trace::WriteRows(trace.events, 1));
  if (rings.lost > 0)
    problems_.push_back(path + ": " + std::to_string(rings.lost) + " rows are left out, there is no memory");
  AddTarget(trace.events.rank, trace.events.host, std::move(rings));
  return {};
}

Result<void> RecordedJob::AddMemorySnapshot(const std::string& path, std::int64_t taken_ns,
                                            std::size_t most_blocks) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return ErrnoError("look at it");
  if (info.st_size > kMostSnapshotBytes)
    return Error{Code::kFailed, "it is larger than 512 MB",
                 "take snapshots with a smaller max_entries of _record_memory_history()"};
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  ASSIGN_OR_RETURN(const DataTree tree, ReadPickle(bytes, kMostSnapshotValues));
  ASSIGN_OR_RETURN(const trace::MemorySnapshot snapshot, trace::ReadMemorySnapshot(tree, most_blocks));
  if (snapshot.lost > 0)
    problems_.push_back(path + ": " + std::to_string(snapshot.lost) + " blocks are left out");
  ASSIGN_OR_RETURN(trace::Rings rings, trace::WriteRows(snapshot, taken_ns, 1));
  AddTarget(std::nullopt, "", std::move(rings));
  return {};
}

// Files may say nothing of their rank, or several the same.
void RecordedJob::AddTarget(std::optional<std::int64_t> rank, const std::string& host, trace::Rings rings) {
  table::Target target{.pid = -1 - rank.value_or(0), .rank = rank, .host = host.empty() ? name_ : host};
  while (std::ranges::find(targets_, target.pid, &table::Target::pid) != targets_.end()) --target.pid;
  target.ring_fds = std::move(rings.fds);
  targets_.push_back(std::move(target));
  std::ranges::move(rings.arenas, std::back_inserter(arenas_));
}

Result<void> RecordedJob::Add(std::int64_t rank, const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return ErrnoError("look at it");
  if (!S_ISREG(info.st_mode) || info.st_size > kMostFileBytes)
    return Error{Code::kFailed, "it is no file of at most 256 MB", ""};
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  ASSIGN_OR_RETURN(const DataTree tree, IsJson(bytes) ? ReadJson(bytes) : ReadPickle(bytes));
  const std::optional<FlightRecording> recording = table::ReadFlightRecording(tree);
  if (!recording) return Error{Code::kFailed, "it is no recording of torch's Flight Recorder", ""};
  ASSIGN_OR_RETURN(std::unique_ptr<ring::Arena> arena, ring::Arena::Create({}));
  const std::int64_t written_ns = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec;
  const std::int64_t newest_ns =
      recording->entries.empty() ? written_ns : recording->entries.back().created_ns;
  RETURN_IF_ERROR(WriteTables(*recording, newest_ns, *arena));
  auto ring = std::make_shared<const ScopedFd>(fcntl(arena->fd(), F_DUPFD_CLOEXEC, 0));
  if (!ring->valid()) return ErrnoError("duplicate the descriptor of a ring");
  versions_[recording->version].push_back(rank);
  for (const auto& [name, group] : recording->groups) members_.insert(group.ranks.begin(), group.ranks.end());
  table::Target target{.pid = -1 - rank, .rank = rank, .host = name_, .job = name_};
  target.ring_fds.push_back(std::move(ring));
  targets_.push_back(std::move(target));
  arenas_.push_back(std::move(arena));
  return {};
}

void RecordedJob::AddMissing() {
  std::set<std::int64_t> present;
  for (const table::Target& target : targets_) present.insert(*target.rank);
  for (const std::int64_t rank : members_) {
    if (rank < 0 || rank > kMostRank || present.contains(rank) || targets_.size() >= kMostRanks) continue;
    targets_.push_back({.pid = -1 - rank, .rank = rank, .host = name_, .job = name_});
  }
}

// Of two jobs, or of one whose ranks run different torches: numbers may not mean the same.
void RecordedJob::CompareVersions() {
  if (versions_.size() < 2) return;
  std::string text;
  for (const auto& [version, ranks] : versions_) {
    text += (text.empty() ? "" : "; ") + version + (ranks.size() == 1 ? " of rank " : " of ranks ");
    for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i)
      text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
    if (ranks.size() > kMostNamed) text += " and others";
  }
  problems_.push_back("the recordings are of different versions, so that ranks may count differently: " +
                      text);
}

table::Rows RecordedJob::Provide(const table::Table& table, const table::Target* target,
                                 const std::vector<std::size_t>& columns) const {
  if (incident_ != nullptr) return incident_->Provide(table, target, columns);
  table::Rows rows(table::TypesOf(table, columns));
  if (table.name != "probing.targets" || target == nullptr) return rows;
  std::vector<table::Value> row;
  for (const std::size_t column : columns) {
    const std::string_view name = table.columns[column].name;
    row.push_back(
        name == "job"        ? table::Value(name_)
        : name == "name"     ? table::Value(target->rank ? "rank " + std::to_string(*target->rank) : name_)
        : name == "state"    ? table::Value(std::string(target->ring_fds.empty() ? "missing" : "recorded"))
        : name == "job_role" ? table::Value(std::string("rank"))
                             : table::Value());
  }
  rows.Add(std::move(row));
  return rows;
}

}  // namespace probing::daemon
