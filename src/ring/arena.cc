#include "ring/arena.h"

#include <algorithm>

namespace probing::ring {
namespace {

Error Unusable(std::string why, std::string hint) {
  return Error{Code::kUsage, std::move(why), std::move(hint)};
}

Result<void> Check(const TableOptions& options) {
  if (!NameIsUsable(options.name, kMaxTableName)) {
    return Unusable("'" + options.name + "' cannot be the name of a table",
                    "use 1 to " + std::to_string(kMaxTableName) + " bytes without control characters");
  }
  const std::string which = "table '" + options.name + "'";
  if (options.columns.empty() || options.columns[0].type != ColumnType::kTimestamp) {
    return Unusable(which + " does not begin with a timestamp column",
                    "make the row's time its first column");
  }
  if (options.columns.size() > kMaxColumns) {
    return Unusable(which + " has " + std::to_string(options.columns.size()) + " columns",
                    "a table has at most " + std::to_string(kMaxColumns));
  }
  for (std::size_t i = 0; i < options.columns.size(); ++i) {
    const Column& column = options.columns[i];
    if (!NameIsUsable(column.name, kMaxColumnName)) {
      return Unusable(which + ": '" + column.name + "' cannot be the name of a column",
                      "use 1 to " + std::to_string(kMaxColumnName) + " bytes without control characters");
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (options.columns[k].name == column.name) {
        return Unusable(which + " has two columns '" + column.name + "'", "rename one of them");
      }
    }
  }
  if (options.rows == 0 || options.rows > kMaxRowsLimit) {
    return Unusable(which + " cannot keep " + std::to_string(options.rows) + " rows",
                    "use 1 to " + std::to_string(kMaxRowsLimit));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::Create(ArenaOptions options) {
  if (!options.file.valid()) {
    ASSIGN_OR_RETURN(options.file, MakeMemoryFile());
  }
  ASSIGN_OR_RETURN(std::unique_ptr<SegmentFile> file,
                   SegmentFile::Create(std::move(options.file), options.max_memory));
  std::unique_ptr<Arena> arena(new Arena(std::move(file)));
  if (const int error = arena->dictionary_.Open(options.dictionary_bytes); error != 0) {
    Error failure = ErrnoError("make the dictionary of the rings", error);
    failure.hint = "raise probing.max_memory";
    return failure;
  }
  return arena;
}

Arena::~Arena() = default;

Result<Table*> Arena::AddTable(TableOptions options) {
  RETURN_IF_ERROR(Check(options));
  // Before the lock, here and below: in a forked child it may be held by a thread that is not there.
  if (!file_->guard().Armed()) {
    return Unusable("table '" + options.name + "' was added to a ring that is closed, or the parent's",
                    "make a new one");
  }
  const std::lock_guard lock(mutex_);
  for (const auto& table : tables_) {
    if (table->name() != options.name) continue;
    if (table->columns() == options.columns) return table.get();
    return Unusable("table '" + options.name + "' exists with other columns", "choose another name");
  }
  const std::string name = options.name;
  std::unique_ptr<Table> table(new Table(std::move(options), static_cast<std::uint32_t>(tables_.size() + 1),
                                         file_.get(), &dictionary_, &next_lane_id_));
  if (const int error = table->Open(); error != 0) {
    Error failure = ErrnoError("add table '" + name + "' to the rings", error);
    failure.hint = "raise probing.max_memory, or the limits of the process (ulimit -f, -v)";
    return failure;
  }
  tables_.push_back(std::move(table));
  return tables_.back().get();
}

Table* Arena::FindTable(std::string_view name) {
  if (!file_->guard().Armed()) return nullptr;
  const std::lock_guard lock(mutex_);
  for (const auto& table : tables_) {
    if (table->name() == name) return table.get();
  }
  return nullptr;
}

void Arena::SetMaxMemory(std::uint64_t bytes) {
  if (!file_->guard().Armed()) return;
  const std::lock_guard lock(mutex_);
  file_->set_max_bytes(bytes);
  while (file_->allocated_bytes() > bytes) {
    Table* owner = nullptr;
    Table::Lane* largest = nullptr;
    std::uint64_t most = 0;
    for (const auto& table : tables_) {
      Table::Lane* lane = table->TakeLargest(&most);
      if (lane == nullptr) continue;
      if (largest != nullptr) largest->Release();
      largest = lane;
      owner = table.get();
    }
    if (largest == nullptr) return;
    owner->FreeLane(largest);
    largest->Release();
  }
}

void Arena::Close() {
  if (!file_->guard().Armed()) return;
  const std::lock_guard lock(mutex_);
  file_->guard().Disarm();
  file_->MarkClosed();
  for (const auto& table : tables_) table->Close();
}

}  // namespace probing::ring
