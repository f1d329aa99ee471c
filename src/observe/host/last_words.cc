#include "observe/host/last_words.h"

#include <fcntl.h>

#include <array>
#include <string_view>

#include "ring/reader.h"

namespace probing::observe {
namespace {

// Tables whose rows belong to a step; a job writes some of them.
constexpr std::array<std::string_view, 5> kWithSteps{"python.torch_steps", "python.torch_trace",
                                                     "python.variables", "python.metrics", "python.spans"};

// The places of these columns; nothing unless the table has all of them, of these types.
using Wanted = std::pair<std::string_view, ring::ColumnType>;
std::optional<std::vector<std::uint32_t>> Places(const ring::TableInfo& table,
                                                 std::span<const Wanted> wanted) {
  std::vector<std::uint32_t> places;
  for (const auto& [name, type] : wanted) {
    for (std::uint32_t i = 0; i < table.columns.size(); ++i) {
      if (table.columns[i].name == name && table.columns[i].type == type) places.push_back(i);
    }
  }
  if (places.size() != wanted.size()) return std::nullopt;
  return places;
}

// Threads have lanes of their own, so rows do not come in the order of time.
struct Newest {
  std::int64_t at_ns = 0;
  bool Is(std::int64_t time_ns) {
    if (time_ns < at_ns) return false;
    at_ns = time_ns;
    return true;
  }
};

void ReadSteps(ring::Reader& reader, const ring::TableInfo& table, Newest& newest, LastWords& words) {
  static constexpr std::array kColumns{Wanted{"timestamp", ring::ColumnType::kTimestamp},
                                       Wanted{"step", ring::ColumnType::kInt64}};
  const auto places = Places(table, kColumns);
  if (!places) return;
  ring::Scan scan = reader.StartScan(table, {.columns = *places});
  for (ring::Batch batch; scan.Next(&batch);) {
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      if (!batch.IsNull(1, row) && newest.Is(batch.Int64s(0)[row])) words.step = batch.Int64s(1)[row];
    }
  }
}

void ReadException(ring::Reader& reader, const ring::TableInfo& table, std::int64_t main_thread,
                   LastWords& words) {
  static constexpr std::array kColumns{
      Wanted{"timestamp", ring::ColumnType::kTimestamp}, Wanted{"tid", ring::ColumnType::kInt64},
      Wanted{"type", ring::ColumnType::kString}, Wanted{"message", ring::ColumnType::kString},
      Wanted{"handled", ring::ColumnType::kBool}};
  const auto places = Places(table, kColumns);
  if (!places) return;
  Newest newest;
  ring::Scan scan = reader.StartScan(table, {.columns = *places});
  for (ring::Batch batch; scan.Next(&batch);) {
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      const bool is_handled = batch.IsNull(4, row) || batch.Bools(4)[row] != 0;
      if (is_handled || batch.IsNull(1, row) || batch.Int64s(1)[row] != main_thread) continue;
      if (batch.IsNull(2, row) || !newest.Is(batch.Int64s(0)[row])) continue;
      words.exception = batch.Texts(2)[row];
      const bool has_message = !batch.IsNull(3, row) && !batch.Texts(3)[row].empty();
      if (has_message) words.exception.append(": ").append(batch.Texts(3)[row]);
    }
  }
}

}  // namespace

LastWords ReadLastWords(std::span<const std::shared_ptr<const ScopedFd>> rings) {
  LastWords words;
  Newest newest;
  for (const auto& ring : rings) {
    Result<ring::Reader> reader = ring::Reader::Open(ScopedFd(fcntl(ring->get(), F_DUPFD_CLOEXEC, 3)));
    if (!reader.ok()) continue;
    for (const ring::TableInfo& table : reader->Tables()) {
      for (const std::string_view name : kWithSteps) {
        if (table.name == name) ReadSteps(*reader, table, newest, words);
      }
      // The pid as the writer has it, like the ids of threads in its rows; the main thread's is the same.
      if (table.name == "python.exceptions") ReadException(*reader, table, reader->pid(), words);
    }
  }
  return words;
}

}  // namespace probing::observe
