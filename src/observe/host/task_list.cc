#include "observe/host/task_list.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/text.h"

namespace probing::observe {
namespace {

// What getdents64(2) writes, up to the name. readdir() would allocate, and open it anew each time.
struct EntryHead {
  std::uint64_t inode;
  std::int64_t offset;
  std::uint16_t length;
  std::uint8_t type;
};
constexpr std::size_t kNameOffset = 19;
static_assert(offsetof(EntryHead, length) == 16 && offsetof(EntryHead, type) == 18);
constexpr std::size_t kBufferBytes = 32768;

}  // namespace

std::vector<pid_t> ListTasks(int folder_fd, std::string& scratch) {
  std::vector<pid_t> tasks;
  if (lseek(folder_fd, 0, SEEK_SET) != 0) return tasks;
  if (scratch.size() < kBufferBytes) scratch.resize(kBufferBytes);
  while (true) {
    const long n = syscall(SYS_getdents64, folder_fd, scratch.data(), scratch.size());
    if (n <= 0) break;
    const auto end = static_cast<std::size_t>(n);
    for (std::size_t at = 0; at + kNameOffset < end;) {
      EntryHead head;
      std::memcpy(&head, scratch.data() + at, kNameOffset);
      if (head.length <= kNameOffset || at + head.length > end) break;
      const char* name = scratch.data() + at + kNameOffset;
      const std::string_view text(name, strnlen(name, head.length - kNameOffset));
      pid_t number = 0;
      if (IsNumber(text) &&
          std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc()) {
        tasks.push_back(number);
      }
      at += head.length;
    }
  }
  std::sort(tasks.begin(), tasks.end());
  return tasks;
}

}  // namespace probing::observe
