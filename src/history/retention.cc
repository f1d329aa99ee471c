#include "history/retention.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "table/history_files.h"

namespace probing::history {
namespace {

constexpr std::int64_t kDayNs = 86'400'000'000'000;
constexpr int kFolderLevels = 4;

struct SizedFile {
  table::HistoryFile file;
  std::int64_t bytes;
};

}  // namespace

void Retention::Prune(const RetentionLimits& limits, std::int64_t now_ns) {
  std::vector<table::HistoryFile> merged;
  std::vector<table::HistoryFile> files = table::ListHistory(directory_, {}, &merged);
  std::set<std::string> superseded;
  for (const table::HistoryFile& file : merged) {
    const std::string path = table::HistoryPath(file);
    if (superseded_.contains(path))
      Remove(path);
    else
      superseded.insert(path);
  }
  superseded_ = std::move(superseded);

  // Days are compared as text, which is how they sort.
  const std::string first_day = table::DayOf(now_ns - limits.days * kDayNs);
  std::int64_t total_bytes = 0;
  std::vector<SizedFile> kept;
  for (table::HistoryFile& file : files) {
    const std::string path = table::HistoryPath(file);
    struct stat info{};
    if (file.day < first_day) {
      Remove(path);
    } else if (stat((directory_ + "/" + path).c_str(), &info) == 0) {
      total_bytes += info.st_size;
      kept.push_back({std::move(file), info.st_size});
    }
  }
  std::ranges::sort(kept, {}, [](const SizedFile& each) { return each.file.max_ns; });
  for (const SizedFile& each : kept) {
    if (total_bytes <= limits.max_bytes) break;
    Remove(table::HistoryPath(each.file));
    total_bytes -= each.bytes;
  }
}

void Retention::Remove(const std::string& path) {
  unlink((directory_ + "/" + path).c_str());
  std::string folder = path;
  for (int level = 0; level < kFolderLevels; ++level) {
    folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
    if (folder.empty() || rmdir((directory_ + "/" + folder).c_str()) != 0) return;
  }
}

}  // namespace probing::history
