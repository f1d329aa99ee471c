#include "console/output.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace probing::console {
namespace {

std::mutex mutex;
// Made when there is something to print. Nothing here may need a destructor: the library can go before the
// process ends.
Printed* waiting = nullptr;
std::atomic<int> wake_fd{-1};

}  // namespace

void Output::WakeBy(int event_fd) { wake_fd.store(event_fd); }

void Output::Append(Stream stream, std::string_view text) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex);
    was_empty = waiting == nullptr;
    if (was_empty) waiting = new Printed;
    (stream == Stream::kOut ? waiting->out : waiting->err) += text;
  }
  const std::uint64_t one = 1;
  if (was_empty && wake_fd.load() >= 0) (void)!write(wake_fd.load(), &one, sizeof(one));
}

Printed Output::Take() {
  const std::lock_guard lock(mutex);
  const std::unique_ptr<Printed> taken(std::exchange(waiting, nullptr));
  return taken != nullptr ? std::move(*taken) : Printed{};
}

}  // namespace probing::console
