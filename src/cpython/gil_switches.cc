#include "cpython/gil_switches.h"

#include <pthread.h>

#include <algorithm>
#include <vector>

namespace probing::cpython {
namespace {

using process::RemoteAddress;

constexpr std::uint64_t kMaxIntervalUs = 10'000'000;
constexpr std::uint32_t kMaxRuntimeBytes = 16'384;
constexpr std::uint64_t kWaitBytes = sizeof(pthread_cond_t) + sizeof(pthread_mutex_t);

}  // namespace

std::optional<std::uint64_t> GilSwitches::Read(const process::Memory& memory, const Location& location,
                                               const InterpreterState& interpreter) {
  const Offsets& offsets = location.offsets;
  if (offsets.interpreter.gil != kAbsent && offsets.gil.locked != kAbsent) {
    const auto gil = memory.ReadValue((interpreter.address + offsets.interpreter.gil).As<RemoteAddress>());
    if (!gil.ok() || !*gil) return std::nullopt;
    if (offsets.gil.enabled != kAbsent) {
      const auto enabled = memory.ReadValue((*gil + offsets.gil.enabled).As<std::int32_t>());
      if (!enabled.ok() || *enabled == 0) return std::nullopt;
    }
    count_ = *gil + offsets.gil.locked + 8;  // int locked; unsigned long switch_number
  } else if (!count_) {
    count_ = FindInRuntime(memory, location, interpreter);
  }
  if (!count_) return std::nullopt;
  const auto number = memory.ReadValue(count_.As<std::uint64_t>());
  return number.ok() ? std::optional(*number) : std::nullopt;
}

// unsigned long switch_number; pthread_cond_t cond; pthread_mutex_t mutex;
std::optional<bool> GilSwitches::IsWait(std::uint64_t futex) const {
  if (!count_) return std::nullopt;
  const std::uint64_t begin = count_.address + sizeof(std::uint64_t);
  return futex >= begin && futex < begin + kWaitBytes;
}

// {unsigned long interval; PyThreadState* last_holder; int locked; unsigned long switch_number; …}, somewhere
// before the pointer to the current thread: known by the thread that it points to.
RemoteAddress GilSwitches::FindInRuntime(const process::Memory& memory, const Location& location,
                                         const InterpreterState& interpreter) const {
  const Offsets::Runtime& runtime = location.offsets.runtime;
  if (runtime.current_thread == kAbsent || runtime.current_thread > kMaxRuntimeBytes) return {};
  const RemoteAddress start{location.first_interpreter.address - runtime.interpreters_head};
  std::vector<std::uint64_t> words(runtime.current_thread / 8);
  if (!memory.Read(start, std::as_writable_bytes(std::span(words))).ok()) return {};
  RemoteAddress found;
  for (std::size_t i = 0; i + 3 < words.size(); ++i) {
    const bool is_interval = words[i] > 0 && words[i] <= kMaxIntervalUs;
    const bool is_locked = (words[i + 2] & 0xffffffff) <= 1;
    const bool is_thread =
        std::any_of(interpreter.threads.begin(), interpreter.threads.end(),
                    [&](const ThreadState& thread) { return thread.address.address == words[i + 1]; });
    if (!is_interval || !is_locked || !is_thread) continue;
    if (found) return {};  // two: it is not known which
    found = start + (i + 3) * 8;
  }
  return found;
}

}  // namespace probing::cpython
