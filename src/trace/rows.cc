#include "trace/rows.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "table/registry.h"
#include "table/stored.h"

namespace probing::trace {
namespace {

using ring::Cell;

// A ring keeps 64 MB of long texts: names of kernels fill that long before there are too many rows.
constexpr std::size_t kMostRows = 250'000;
constexpr std::size_t kMostTextBytes = 40 << 20;
constexpr std::uint64_t kMostArenaBytes = 512U << 20;

Cell Number(std::int64_t number) { return number == kNoNumber ? Cell::Null() : Cell::Int(number); }
Cell Microseconds(std::int64_t ns) {
  return ns == kNoNumber ? Cell::Null() : Cell::Double(static_cast<double>(ns) / 1e3);
}

// Fills memory files one after the other.
class Writer {
 public:
  Writer(const Texts& texts, std::int64_t profile) : texts_(texts), profile_(profile) {}

  Result<void> Begin(std::string_view table, std::size_t rows) {
    name_ = table;
    left_ = rows;
    table_ = nullptr;
    return {};
  }

  template <std::size_t kCount>
  Result<void> Write(const std::array<Cell, kCount>& row, std::size_t text_bytes) {
    if (table_ == nullptr || rows_ == kMostRows || text_bytes_ + text_bytes > kMostTextBytes)
      RETURN_IF_ERROR(NextArena());
    if (table_->Write(row.data(), kCount) != ring::WriteStatus::kWritten) ++rings_.lost;
    ++rows_;
    --left_;
    text_bytes_ += text_bytes;
    return {};
  }

  Cell Text(Texts::Id id) const { return id == 0 ? Cell::Null() : Cell::String(texts_.At(id)); }
  std::size_t Bytes(std::initializer_list<Texts::Id> ids) const {
    std::size_t bytes = 0;
    for (const Texts::Id id : ids) bytes += texts_.At(id).size();
    return bytes;
  }
  Cell profile() const { return Cell::Int(profile_); }
  Rings Take() { return std::move(rings_); }

 private:
  Result<void> NextArena() {
    ASSIGN_OR_RETURN(std::unique_ptr<ring::Arena> arena,
                     ring::Arena::Create({.max_memory = kMostArenaBytes}));
    ring::TableOptions options{
        .name = std::string(name_), .columns = {}, .rows = std::clamp<std::size_t>(left_, 1, kMostRows)};
    for (const table::Column& column : table::FindTable(name_)->columns)
      options.columns.push_back(table::InRing(column));
    ASSIGN_OR_RETURN(table_, arena->AddTable(std::move(options)));
    auto fd = std::make_shared<const ScopedFd>(fcntl(arena->fd(), F_DUPFD_CLOEXEC, 0));
    if (!fd->valid()) return ErrnoError("duplicate the descriptor of a ring");
    rings_.fds.push_back(std::move(fd));
    rings_.arenas.push_back(std::move(arena));
    rows_ = text_bytes_ = 0;
    return {};
  }

  const Texts& texts_;
  const std::int64_t profile_;
  Rings rings_;
  std::string_view name_;
  ring::Table* table_ = nullptr;
  std::size_t rows_ = 0, text_bytes_ = 0, left_ = 0;
};

Result<void> WriteOps(const Events& events, Writer& writer) {
  RETURN_IF_ERROR(writer.Begin("python.torch_ops", events.ops.size()));
  for (const Op& op : events.ops) {
    const auto thread = events.thread_names.find(op.thread);
    const Texts::Id thread_name = thread == events.thread_names.end() ? 0 : thread->second;
    const std::array row{
        Cell::Timestamp(op.start_ns),
        writer.Text(op.name),
        Cell::String(NameOf(op.kind)),
        Number(op.step),
        writer.Text(op.scope),
        writer.Text(op.module),
        Cell::Int(op.thread),
        writer.Text(thread_name),
        Microseconds(op.duration_ns),
        Microseconds(op.self_ns),
        Cell::Int(op.depth),
        Number(op.id),
        Number(op.parent_id),
        op.kind == OpKind::kRuntime ? Number(op.correlation) : Cell::Null(),
        op.sequence < 0 ? Cell::Null() : Number(op.sequence),
        writer.Text(op.shapes),
        writer.Text(op.dtypes),
        writer.Text(op.stack),
        Number(op.bytes),
        writer.profile(),
    };
    RETURN_IF_ERROR(writer.Write(
        row, writer.Bytes({op.name, op.scope, op.module, op.shapes, op.dtypes, op.stack, thread_name})));
  }
  return {};
}

Result<void> WriteGpu(const Events& events, Writer& writer) {
  RETURN_IF_ERROR(writer.Begin("gpu.kernels", events.gpu.size()));
  for (const GpuEvent& event : events.gpu) {
    const std::array row{
        Cell::Timestamp(event.start_ns),    writer.Text(event.name),       Cell::String(NameOf(event.kind)),
        Cell::Bool(event.is_communication), Number(event.device),          Number(event.stream),
        Microseconds(event.duration_ns),    writer.Text(event.op),         Number(event.op_id),
        writer.Text(event.module),          writer.Text(event.scope),      Number(event.step),
        Number(event.correlation),          Microseconds(event.launch_ns), writer.Text(event.grid),
        writer.Text(event.block),           Number(event.bytes),           writer.profile(),
    };
    RETURN_IF_ERROR(writer.Write(
        row, writer.Bytes({event.name, event.op, event.module, event.scope, event.grid, event.block})));
  }
  return {};
}

Result<void> WriteBlocks(const MemorySnapshot& snapshot, std::int64_t taken_ns, Writer& writer) {
  RETURN_IF_ERROR(writer.Begin("gpu.memory_blocks", snapshot.blocks.size()));
  for (const MemoryBlock& block : snapshot.blocks) {
    const bool has_age = block.allocated_ns != kNoNumber && block.allocated_ns <= taken_ns;
    const std::array row{
        Cell::Timestamp(taken_ns),
        Cell::Int(block.device),
        Number(block.stream),
        Number(block.segment),
        Number(block.segment_bytes),
        writer.Text(block.segment_type),
        Number(block.address),
        Cell::Int(block.bytes),
        Number(block.requested),
        Cell::String(NameOf(block.state)),
        writer.Text(block.function),
        writer.Text(block.file),
        Number(block.line),
        writer.Text(block.stack),
        has_age ? Cell::Double(static_cast<double>(taken_ns - block.allocated_ns) / 1e9) : Cell::Null(),
        writer.profile(),
    };
    RETURN_IF_ERROR(
        writer.Write(row, writer.Bytes({block.segment_type, block.function, block.file, block.stack})));
  }
  return {};
}

}  // namespace

Result<Rings> WriteRows(const MemorySnapshot& snapshot, std::int64_t taken_ns, std::int64_t number) {
  Writer writer(snapshot.texts, number);
  RETURN_IF_ERROR(WriteBlocks(snapshot, taken_ns, writer));
  return writer.Take();
}

Result<Rings> WriteRows(const Events& events, std::int64_t profile) {
  Writer writer(events.texts, profile);
  RETURN_IF_ERROR(WriteOps(events, writer));
  RETURN_IF_ERROR(WriteGpu(events, writer));
  return writer.Take();
}

}  // namespace probing::trace
