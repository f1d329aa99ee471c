#include "table/history_files.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <tuple>

#include "base/file.h"
#include "base/text.h"

namespace probing::table {
namespace {

constexpr std::string_view kSuffix = ".parquet";
constexpr std::size_t kMaxName = 80;  // each may become three, of the 255 that a file's name may have

bool StaysAsItIs(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.';
}

// "key=value" with the right key.
std::optional<std::string> ValueOf(std::string_view part, std::string_view key) {
  if (!part.starts_with(key) || part.size() <= key.size() || part[key.size()] != '=') return std::nullopt;
  return UnescapeName(part.substr(key.size() + 1));
}

bool ParseName(std::string_view name, HistoryFile& file) {
  if (!name.ends_with(kSuffix)) return false;
  name.remove_suffix(kSuffix.size());
  const std::optional<std::string> host = UnescapeName(TakePart(name, '~'));
  if (!host) return false;
  file.ring.host = *host;
  return ParseNumber(TakePart(name, '~'), file.ring.pid) &&
         ParseNumber(TakePart(name, '~'), file.ring.created_ns) &&
         ParseNumber(TakePart(name, '~'), file.lane) && ParseNumber(TakePart(name, '~'), file.first_row) &&
         ParseNumber(TakePart(name, '~'), file.rows) && ParseNumber(TakePart(name, '~'), file.min_ns) &&
         ParseNumber(TakePart(name, '~'), file.max_ns) && name.empty() && file.rows > 0 &&
         file.first_row <= UINT64_MAX - file.rows;
}

// Names in a folder that begin with "key=".
std::vector<std::string> Partitions(const std::string& folder, const std::string& key) {
  std::vector<std::string> found;
  Result<std::vector<std::string>> names = ListDirectory(folder);
  if (!names.ok()) return found;
  for (std::string& name : *names) {
    if (name.starts_with(key + "=")) found.push_back(std::move(name));
  }
  return found;
}

// Calls `visit` with "job=J/rank=R/day=D/table=T" for each such folder.
void ForEachFolder(const std::string& directory, const std::string& table,
                   const std::function<void(const std::string&)>& visit) {
  for (const std::string& job : Partitions(directory, "job")) {
    for (const std::string& rank : Partitions(directory + "/" + job, "rank")) {
      const std::string of_rank = job + "/" + rank;
      for (const std::string& day : Partitions(directory + "/" + of_rank, "day")) {
        const std::string of_day = of_rank + "/" + day;
        if (!table.empty()) {
          visit(of_day + "/table=" + EscapeName(table));
          continue;
        }
        for (const std::string& each : Partitions(directory + "/" + of_day, "table"))
          visit(of_day + "/" + each);
      }
    }
  }
}

bool Matches(const HistoryFile& file, const HistoryFilter& filter) {
  if (filter.pid && file.ring.pid != *filter.pid) return false;
  return !filter.ring || file.ring == *filter.ring;
}

void RemoveSuperseded(std::vector<HistoryFile>& files, std::vector<HistoryFile>* superseded) {
  // Of those that begin alike the longest comes first, so one look back is enough.
  std::ranges::sort(files, [](const HistoryFile& a, const HistoryFile& b) {
    return std::tie(a.ring, a.table, a.lane, a.first_row, b.rows) <
           std::tie(b.ring, b.table, b.lane, b.first_row, a.rows);
  });
  std::vector<HistoryFile> kept;
  for (HistoryFile& file : files) {
    const bool same = !kept.empty() && kept.back().ring == file.ring && kept.back().table == file.table &&
                      kept.back().lane == file.lane;
    if (!same || file.end_row() > kept.back().end_row())
      kept.push_back(std::move(file));
    else if (superseded != nullptr)
      superseded->push_back(std::move(file));
  }
  files = std::move(kept);
}

}  // namespace

std::string EscapeName(std::string_view name) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string escaped;
  for (const char c : name.substr(0, kMaxName)) {
    if (StaysAsItIs(c) && !(c == '.' && escaped.empty())) {
      escaped += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      escaped += {'%', kHex[byte / 16], kHex[byte % 16]};
    }
  }
  return escaped.empty() ? "%" : escaped;
}

std::optional<std::string> UnescapeName(std::string_view name) {
  std::string text;
  if (name == "%") return text;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (StaysAsItIs(name[i])) {
      text += name[i];
      continue;
    }
    unsigned byte = 0;
    if (name[i] != '%' || i + 2 >= name.size() ||
        std::from_chars(&name[i + 1], &name[i] + 3, byte, 16).ptr != &name[i] + 3) {
      return std::nullopt;
    }
    text += static_cast<char>(byte);
    i += 2;
  }
  if (text.empty()) return std::nullopt;
  return text;
}

std::string DayOf(std::int64_t time_ns) {
  std::int64_t seconds = time_ns / 1'000'000'000;
  if (time_ns % 1'000'000'000 < 0) --seconds;
  const auto time = static_cast<time_t>(seconds);
  tm parts{};
  gmtime_r(&time, &parts);
  std::array<char, 32> text{};
  const std::size_t size = strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return {text.data(), size};
}

std::string HistoryFolder(const HistoryFile& file) {
  return "job=" + EscapeName(file.job) + "/rank=" + (file.rank ? std::to_string(*file.rank) : "none") +
         "/day=" + file.day + "/table=" + EscapeName(file.table);
}

std::string HistoryName(const HistoryFile& file) {
  std::string name = EscapeName(file.ring.host);
  for (const std::int64_t number : {file.ring.pid, file.ring.created_ns})
    name += "~" + std::to_string(number);
  for (const std::uint64_t number : {file.lane, file.first_row, file.rows})
    name += "~" + std::to_string(number);
  for (const std::int64_t number : {file.min_ns, file.max_ns}) name += "~" + std::to_string(number);
  return name + std::string(kSuffix);
}

std::optional<HistoryFile> ParseHistoryPath(std::string_view path) {
  HistoryFile file;
  const auto job = ValueOf(TakePart(path, '/'), "job");
  const auto rank = ValueOf(TakePart(path, '/'), "rank");
  const auto day = ValueOf(TakePart(path, '/'), "day");
  const auto table = ValueOf(TakePart(path, '/'), "table");
  if (!job || !rank || !day || !table || !ParseName(path, file)) return std::nullopt;
  file.job = *job;
  file.day = *day;
  file.table = *table;
  if (*rank != "none" && !ParseNumber(*rank, file.rank.emplace())) return std::nullopt;
  return file;
}

std::vector<HistoryFile> ListHistory(const std::string& directory, const HistoryFilter& filter,
                                     std::vector<HistoryFile>* superseded) {
  std::vector<HistoryFile> files;
  ForEachFolder(directory, filter.table, [&](const std::string& folder) {
    const Result<std::vector<std::string>> names = ListDirectory(directory + "/" + folder);
    if (!names.ok()) return;
    for (const std::string& name : *names) {
      std::optional<HistoryFile> file = ParseHistoryPath(folder + "/" + name);
      if (file && Matches(*file, filter)) files.push_back(std::move(*file));
    }
  });
  RemoveSuperseded(files, superseded);
  return files;
}

std::vector<std::string> HistoryTables(const std::string& directory) {
  std::set<std::string> tables;
  ForEachFolder(directory, "", [&](const std::string& folder) {
    if (const auto table = ValueOf(folder.substr(folder.rfind('/') + 1), "table")) tables.insert(*table);
  });
  return {tables.begin(), tables.end()};
}

ring::Cursor CursorBehind(const std::vector<HistoryFile>& files, const RingId& ring) {
  ring::Cursor cursor;
  for (const HistoryFile& file : files) {
    if (file.ring != ring) continue;
    std::uint64_t& next = cursor.next_row[file.lane];
    next = std::max(next, file.end_row());
  }
  return cursor;
}

}  // namespace probing::table
