#include "why/file_locks.h"

#include "base/text.h"

namespace probing::why {

// "1: POSIX  ADVISORY  WRITE 4711 08:01:123 0 EOF", "1: -> POSIX …" for those who wait.
std::vector<FileLock> ParseFileLocks(std::string_view text) {
  std::vector<FileLock> locks;
  while (!text.empty()) {
    std::string_view line = TakePart(text, '\n');
    const auto word = [&] {
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      return TakePart(line, ' ');
    };
    FileLock lock;
    const std::string_view number = word();
    if (!number.ends_with(':') || !ParseNumber(number.substr(0, number.size() - 1), lock.number)) continue;
    std::string_view kind = word();
    if (kind == "->") {
      lock.waits = true;
      kind = word();
    }
    lock.kind = kind;
    word();  // ADVISORY
    word();  // READ or WRITE
    if (!ParseNumber(word(), lock.pid)) continue;
    lock.file = word();
    if (!lock.file.empty()) locks.push_back(std::move(lock));
  }
  return locks;
}

std::vector<FileLock> LocksInTheWayOf(pid_t pid, const std::vector<FileLock>& all) {
  std::vector<FileLock> holders;
  for (const FileLock& waiter : all) {
    if (!waiter.waits || waiter.pid != pid) continue;
    for (const FileLock& lock : all) {
      if (!lock.waits && lock.number == waiter.number) holders.push_back(lock);
    }
  }
  return holders;
}

}  // namespace probing::why
