#include "incident/contents.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "table/registry.h"
#include "table/stored.h"
#include "table/user_table.h"

namespace probing::incident {
namespace {

using table::ColumnOut;
using table::Table;
using table::Target;
using table::Type;
using table::Value;

constexpr std::size_t kMostTargets = 1024;
constexpr std::uint64_t kMostRingBytes = 512U << 20;
constexpr std::uint64_t kMostLiveCells = 8U << 20;  // each takes forty bytes
constexpr std::size_t kNowhere = SIZE_MAX;

// A batch of rows, column by column.
class Batch {
 public:
  explicit Batch(const std::vector<Column>& columns) {
    for (const Column& column : columns) {
      Memory& memory = memory_.emplace_back();
      memory.type = column.type;
      memory.values.resize(table::kBatchRows * sizeof(table::Text) / sizeof(std::uint64_t));
      memory.validity.resize(table::kBatchRows / 64);
    }
    for (Memory& memory : memory_) out_.emplace_back(memory.values.data(), memory.validity.data());
  }

  Result<std::size_t> Read(table::Cursor& cursor) {
    for (Memory& memory : memory_) std::ranges::fill(memory.validity, ~std::uint64_t{0});
    return cursor.Next(out_);
  }

  bool IsNull(std::size_t column, std::size_t row) const {
    return (memory_[column].validity[row / 64] >> (row % 64) & 1) == 0;
  }
  std::optional<std::int64_t> Int(std::size_t column, std::size_t row) {
    if (column == kNowhere || IsNull(column, row) || !IsInteger(memory_[column].type)) return std::nullopt;
    return out_[column].values<std::int64_t>()[row];
  }
  std::string_view Text(std::size_t column, std::size_t row) {
    if (column == kNowhere || IsNull(column, row) || memory_[column].type != Type::kString) return {};
    return out_[column].values<table::Text>()[row].view();
  }

  ring::Cell CellOf(std::size_t column, std::size_t row) {
    if (column == kNowhere || IsNull(column, row)) return ring::Cell::Null();
    ColumnOut& out = out_[column];
    switch (memory_[column].type) {
      case Type::kInt64:
        return ring::Cell::Int(out.values<std::int64_t>()[row]);
      case Type::kTimestamp:
        return ring::Cell::Timestamp(out.values<std::int64_t>()[row]);
      case Type::kDouble:
        return ring::Cell::Double(out.values<double>()[row]);
      case Type::kBool:
        return ring::Cell::Bool(out.values<bool>()[row]);
      case Type::kString:
        return ring::Cell::String(out.values<table::Text>()[row].view());
      case Type::kBytes:
        return ring::Cell::Bytes(out.values<table::Text>()[row].view());
    }
    return ring::Cell::Null();
  }

  Value ValueOf(std::size_t column, std::size_t row) {
    if (column == kNowhere || IsNull(column, row)) return {};
    ColumnOut& out = out_[column];
    switch (memory_[column].type) {
      case Type::kInt64:
      case Type::kTimestamp:
        return out.values<std::int64_t>()[row];
      case Type::kDouble:
        return out.values<double>()[row];
      case Type::kBool:
        return out.values<bool>()[row];
      case Type::kString:
      case Type::kBytes:
        return std::string(out.values<table::Text>()[row].view());
    }
    return {};
  }

 private:
  struct Memory {
    Type type = Type::kInt64;
    std::vector<std::uint64_t> values;
    std::vector<std::uint64_t> validity;
  };
  static bool IsInteger(Type type) { return type == Type::kInt64 || type == Type::kTimestamp; }

  std::vector<Memory> memory_;
  std::vector<ColumnOut> out_;
};

}  // namespace

class Contents::Loader {
 public:
  Loader(Contents& contents, const File& file) : contents_(contents), file_(file) {}

  // Tables that have a pid of their own say less about which process their rows belong to: they come last.
  Result<void> Load() {
    for (const bool has_own_pid : {false, true}) {
      for (std::size_t i = 0; i < file_.tables().size(); ++i) {
        const TableHead& head = file_.tables()[i];
        if ((Find(head, "pid", 0, head.own) != kNowhere) != has_own_pid) continue;
        RETURN_IF_ERROR(LoadTable(i));
      }
    }
    if (lost_ > 0) Note(std::to_string(lost_) + " rows are left out: there is no memory for them");
    if (strangers_ > 0)
      Note("rows of processes beyond the first " + std::to_string(kMostTargets) + " are left out");
    for (std::size_t i = 0; i < contents_.arenas_.size(); ++i) {
      if (contents_.arenas_[i] == nullptr) continue;
      auto ring = std::make_shared<const ScopedFd>(fcntl(contents_.arenas_[i]->fd(), F_DUPFD_CLOEXEC, 0));
      if (!ring->valid()) return ErrnoError("duplicate the descriptor of a ring");
      contents_.targets_[i].ring_fds.push_back(std::move(ring));
    }
    return {};
  }

 private:
  // Where the rows of one table go.
  struct Sink {
    const TableHead* head = nullptr;
    const Table* declared = nullptr;   // null: the job's own
    std::vector<ring::Column> ring;    // what a ring of it has
    std::vector<std::size_t> sources;  // for each column of the ring, or of the live table: where in the file
    std::map<std::size_t, ring::Table*> rings;  // by target; null: there is no memory for one
  };

  void Note(std::string problem) { contents_.problems_.push_back(std::move(problem)); }

  static std::size_t Find(const TableHead& head, std::string_view name, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      if (head.columns[i].name == name) return i;
    }
    return kNowhere;
  }

  Result<void> LoadTable(std::size_t index) {
    const TableHead& head = file_.tables()[index];
    Sink sink{.head = &head, .declared = table::FindTable(head.name)};
    if (head.left_out > 0) contents_.left_out_[head.name] = head.left_out;
    const bool is_known = sink.declared != nullptr ? sink.declared->kind != table::Kind::kView
                                                   : table::IsUserTableName(LowerCase(head.name));
    if (!is_known) {
      Note("the table " + head.name + " is left out: this version does not know it");
      return {};
    }
    PlanColumns(sink);
    ASSIGN_OR_RETURN(query::GatheredRows parsed, file_.Rows(index));
    const std::unique_ptr<table::Cursor> cursor =
        query::MakeGatheredCursor(std::make_shared<const query::GatheredRows>(std::move(parsed)));
    Batch batch(head.columns);
    const std::size_t pid = Find(head, "pid", 0, head.columns.size());
    const std::size_t host = Find(head, "host", head.own, head.columns.size());
    const std::size_t rank = Find(head, "rank", head.own, head.columns.size());
    const std::size_t job = Find(head, "job", head.own, head.columns.size());
    const bool has_own_pid = pid < head.own;
    const bool is_of_host = sink.declared != nullptr && sink.declared->about == table::About::kHost;
    const bool is_live = sink.declared != nullptr && sink.declared->kind == table::Kind::kLive;
    std::size_t target = kHost;
    while (true) {
      ASSIGN_OR_RETURN(const std::size_t count, batch.Read(*cursor));
      if (count == 0) return {};
      for (std::size_t row = 0; row < count; ++row) {
        const std::optional<std::int64_t> process = batch.Int(pid, row);
        const std::string machine(batch.Text(host, row));
        if (is_of_host) {
          target = kHost;
        } else if (has_own_pid) {
          target = NearestTarget(machine, process, target);
        } else {
          target = process ? TargetOf(machine, *process, batch.Int(rank, row), batch.Text(job, row)) : kHost;
        }
        if (target == kHost && !is_of_host) continue;
        if (is_live)
          AddLive(sink, target, batch, row);
        else
          AddStored(sink, target, batch, row);
      }
    }
  }

  static void PlanColumns(Sink& sink) {
    const TableHead& head = *sink.head;
    const auto add = [&](std::string_view name, Type type) {
      const std::size_t source = Find(head, name, 0, head.own);
      // A column whose type has changed between versions has no values.
      sink.sources.push_back(source != kNowhere && head.columns[source].type == type ? source : kNowhere);
      sink.ring.push_back({std::string(name), table::StoredType(type)});
    };
    if (sink.declared != nullptr) {
      for (const table::Column& column : sink.declared->columns) add(column.name, column.type);
    } else {
      for (std::size_t i = 0; i < head.own; ++i) add(head.columns[i].name, head.columns[i].type);
    }
  }

  std::size_t TargetOf(const std::string& host, std::int64_t pid, std::optional<std::int64_t> rank,
                       std::string_view job) {
    const auto known = contents_.indexes_.find({host, pid});
    if (known != contents_.indexes_.end()) {
      Target& target = contents_.targets_[known->second];
      if (!target.rank) target.rank = rank;
      if (target.job.empty()) target.job = job;
      return known->second;
    }
    if (contents_.targets_.size() == kMostTargets) {
      ++strangers_;
      return kHost;
    }
    const std::size_t index = contents_.targets_.size();
    contents_.indexes_[{host, pid}] = index;
    Target target{.pid = pid, .rank = rank, .host = host, .job = std::string(job)};
    target.shows_locals = true;  // if somebody has asked for them, they are in the file
    contents_.targets_.push_back(std::move(target));
    contents_.arenas_.emplace_back();
    return index;
  }

  // Of a child the process whose rows come before its own; of the host's the first one there.
  std::size_t NearestTarget(const std::string& host, std::optional<std::int64_t> pid, std::size_t before) {
    if (pid) {
      const auto exact = contents_.indexes_.find({host, *pid});
      if (exact != contents_.indexes_.end()) return exact->second;
    }
    if (before != kHost && contents_.targets_[before].host == host) return before;
    const auto first = std::ranges::find(contents_.targets_, host, &Target::host);
    if (first != contents_.targets_.end())
      return static_cast<std::size_t>(first - contents_.targets_.begin());
    return contents_.targets_.empty() ? kHost : 0;
  }

  void AddLive(const Sink& sink, std::size_t target, Batch& batch, std::size_t row) {
    live_cells_ += sink.sources.size();
    if (live_cells_ > kMostLiveCells) {
      ++lost_;
      return;
    }
    auto& rows = contents_.live_[std::string(sink.declared->name)];
    auto found = rows.find(target);
    if (found == rows.end()) {
      std::vector<Type> types;
      for (const table::Column& column : sink.declared->columns) types.push_back(column.type);
      found = rows.emplace(target, table::Rows(std::move(types))).first;
    }
    std::vector<Value> values;
    values.reserve(sink.sources.size());
    for (const std::size_t source : sink.sources) values.push_back(batch.ValueOf(source, row));
    found->second.Add(std::move(values));
  }

  void AddStored(Sink& sink, std::size_t target, Batch& batch, std::size_t row) {
    auto ring = sink.rings.find(target);
    if (ring == sink.rings.end()) ring = sink.rings.emplace(target, MakeRing(sink, target)).first;
    std::vector<ring::Cell> cells;
    cells.reserve(sink.sources.size());
    for (const std::size_t source : sink.sources) cells.push_back(batch.CellOf(source, row));
    if (ring->second == nullptr ||
        ring->second->Write(cells.data(), static_cast<std::uint32_t>(cells.size())) !=
            ring::WriteStatus::kWritten)
      ++lost_;
  }

  ring::Table* MakeRing(const Sink& sink, std::size_t target) {
    std::unique_ptr<ring::Arena>& arena = contents_.arenas_[target];
    if (arena == nullptr) {
      Result<std::unique_ptr<ring::Arena>> created = ring::Arena::Create({.max_memory = kMostRingBytes});
      if (!created.ok()) return nullptr;
      arena = std::move(*created);
    }
    const Result<ring::Table*> table = arena->AddTable(
        {.name = sink.head->name, .columns = sink.ring, .rows = std::max<std::uint64_t>(sink.head->rows, 1)});
    return table.ok() ? *table : nullptr;
  }

  Contents& contents_;
  const File& file_;
  std::uint64_t lost_ = 0, strangers_ = 0, live_cells_ = 0;
};

Result<std::unique_ptr<const Contents>> Contents::Load(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return ErrnoError("look at " + path);
  if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) > kMostFileBytes)
    return Error{Code::kFailed, path + " is no file of at most 512 MB", ""};
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  return Read(bytes);
}

Result<std::unique_ptr<const Contents>> Contents::Read(std::string_view bytes) {
  ASSIGN_OR_RETURN(File file, File::Parse(bytes));
  auto contents = std::make_unique<Contents>();
  contents->about_ = file.about();
  const Json recorded = contents->about_.value("recorded_ns", Json());
  contents->recorded_ns_ = recorded.is_number_integer() ? recorded.get<std::int64_t>() : 0;
  RETURN_IF_ERROR(Loader(*contents, file).Load());
  return std::unique_ptr<const Contents>(std::move(contents));
}

table::Rows Contents::Provide(const Table& table, const Target* target,
                              const std::vector<std::size_t>& columns) const {
  table::Rows rows(table::TypesOf(table, columns));
  const auto of_table = live_.find(table.name);
  if (of_table == live_.end()) {
    rows.set_note(std::string(table.name) + " is not in the incident file");
    return rows;
  }
  std::size_t index = kHost;
  if (target != nullptr) {
    const auto known = indexes_.find({target->host, target->pid});
    if (known == indexes_.end()) return rows;
    index = known->second;
  }
  const auto found = of_table->second.find(index);
  if (found == of_table->second.end()) return rows;
  for (std::size_t row = 0; row < found->second.size(); ++row) {
    std::vector<Value> values;
    values.reserve(columns.size());
    for (const std::size_t column : columns) values.push_back(found->second.at(column, row));
    rows.Add(std::move(values));
  }
  return rows;
}

}  // namespace probing::incident
