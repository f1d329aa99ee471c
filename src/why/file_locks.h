// Who holds the lock on a file that a process waits for (flock, fcntl, lockf), by /proc/locks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace probing::why {

struct FileLock {
  std::int64_t number = 0;  // those who wait have the number of the lock that is in their way
  bool waits = false;
  std::string kind;  // POSIX, FLOCK, OFDLCK, LEASE
  pid_t pid = 0;     // -1: of an open file, not of a process; 0: of a process that cannot be seen from here
  std::string file;  // "08:01:123": device and inode
};

// Lines that make no sense are skipped.
std::vector<FileLock> ParseFileLocks(std::string_view text);

// The locks in the way of `pid`.
std::vector<FileLock> LocksInTheWayOf(pid_t pid, const std::vector<FileLock>& all);

}  // namespace probing::why
