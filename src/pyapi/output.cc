#include "pyapi/output.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>

namespace probing::pyapi {
namespace {

std::mutex mutex;
Printed waiting;
std::atomic<int> wake_fd{-1};

}  // namespace

void Output::WakeBy(int event_fd) { wake_fd.store(event_fd); }

void Output::Append(Stream stream, std::string_view text) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex);
    was_empty = waiting.empty();
    (stream == Stream::kOut ? waiting.out : waiting.err) += text;
  }
  const std::uint64_t one = 1;
  if (was_empty && wake_fd.load() >= 0) (void)!write(wake_fd.load(), &one, sizeof(one));
}

Printed Output::Take() {
  const std::lock_guard lock(mutex);
  return std::exchange(waiting, {});
}

}  // namespace probing::pyapi
