#include "cpython/thread_ids.h"

#include <array>
#include <limits>
#include <unordered_set>

#include "process/status.h"

namespace probing::cpython {
namespace {

constexpr std::size_t kRecordBytes = 1024;  // glibc has the id at 720, musl below 64
using Record = std::array<std::int32_t, kRecordBytes / sizeof(std::int32_t)>;

std::vector<Record> ReadRecords(const process::Memory& memory, const std::vector<ThreadState>& threads) {
  std::vector<Record> records(threads.size());
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const auto bytes = std::as_writable_bytes(std::span(records[i]));
    if (threads[i].pthread % 8 != 0 || !memory.Read({threads[i].pthread}, bytes).ok()) records[i].fill(0);
  }
  return records;
}

// How many records have a living id of their own at this place.
std::size_t CountDistinctIds(const std::vector<Record>& records, std::size_t place,
                             const ThreadNumbers& numbers) {
  std::unordered_set<pid_t> ids;
  for (const Record& record : records) {
    if (numbers.contains(record[place])) ids.insert(record[place]);
  }
  return ids.size();
}

}  // namespace

Result<ThreadNumbers> ReadThreadNumbers(pid_t pid) {
  ASSIGN_OR_RETURN(const process::Status status, process::ReadStatus(pid));
  ASSIGN_OR_RETURN(const std::vector<pid_t> ids, process::ListThreads(pid));
  ThreadNumbers numbers;
  for (const pid_t id : ids) {
    if (status.ns_pids.size() <= 1) {
      numbers.emplace(id, id);
    } else if (const auto own = process::ReadStatus(id); own.ok()) {
      numbers.emplace(own->own_pid(), id);
    }
  }
  return numbers;
}

std::vector<pid_t> FindThreadIds(const process::Memory& memory, const std::vector<ThreadState>& threads,
                                 const ThreadNumbers& numbers) {
  const auto number_of = [&](std::uint64_t own) {
    const auto found =
        own <= std::numeric_limits<pid_t>::max() ? numbers.find(static_cast<pid_t>(own)) : numbers.end();
    return found == numbers.end() ? 0 : found->second;
  };
  std::vector<pid_t> ids;
  bool complete = true;
  for (const ThreadState& thread : threads) {
    ids.push_back(thread.native_id == 0 ? 0 : number_of(thread.native_id));
    complete = complete && ids.back() != 0;
  }
  if (complete) return ids;

  const std::vector<Record> records = ReadRecords(memory, threads);
  std::size_t best_place = 0;
  std::size_t best_count = 0;
  for (std::size_t place = 0; place < std::tuple_size_v<Record>; ++place) {
    const std::size_t count = CountDistinctIds(records, place, numbers);
    if (count > best_count) {
      best_count = count;
      best_place = place;
    }
  }
  if (best_count == 0) return ids;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const std::int32_t own = records[i][best_place];
    if (ids[i] == 0 && own > 0) ids[i] = number_of(static_cast<std::uint64_t>(own));
  }
  return ids;
}

}  // namespace probing::cpython
