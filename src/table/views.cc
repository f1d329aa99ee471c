// Names that are easier to remember than the tables behind them.
#include <array>

#include "table/registry.h"

namespace probing::table {
namespace {

using enum Type;

constexpr std::array kMemoryUsage{
    Column{"timestamp", kTimestamp, "", "when it was measured"},
    Column{"rss_mb", kDouble, "MB", "resident memory of the process"},
    Column{"vms_mb", kDouble, "MB", "mapped memory of the process"},
    Column{"swap_mb", kDouble, "MB", "memory of the process that was swapped out"},
    Column{"children_rss_mb", kDouble, "MB", "resident memory of its child processes"},
    Column{"host_available_mb", kDouble, "MB", "memory that could still be had on the host"},
};

constexpr std::array kProfilingData{
    Column{"timestamp", kTimestamp, "", "when it happened"},
    Column{"operation_name", kString, "", "the operation"},
    Column{"duration_ms", kDouble, "ms", "how long it took"},
    Column{"step", kInt64, "", "training step"},
    Column{"source", kString, "", "torch (python.torch_trace) or span (python.spans)"},
};

// The metrics' own columns are added when the names that the job logs are known (query/schema.h).
constexpr std::array kTrainingLogs{
    Column{"timestamp", kTimestamp, "", "when the first value of the row was logged"},
    Column{"source", kString, "", "log (probing.log), tensorboard, wandb or exprs"},
    Column{"epoch", kInt64, "", "epoch"},
    Column{"step", kInt64, "", "training step"},
    Column{"loss", kDouble, "", "the metric of that name; every other metric is a column as well"},
};

constexpr std::array kTables{
    Table{"memory_usage", Kind::kView, Origin::kOutside, "memory of the process in MB over time",
          kMemoryUsage,
          "SELECT timestamp, rss / 1048576.0::DOUBLE AS rss_mb, vms / 1048576.0::DOUBLE AS vms_mb,"
          " swap / 1048576.0::DOUBLE AS swap_mb, children_rss / 1048576.0::DOUBLE AS children_rss_mb,"
          " host_available / 1048576.0::DOUBLE AS host_available_mb, pid, rank, host, job"
          " FROM {system.memory}"},
    Table{"profiling_data", Kind::kView, Origin::kProbe, "how long operations took", kProfilingData,
          "SELECT timestamp, operation_name, duration_ms, step, 'torch' AS source, pid, rank, host, job"
          " FROM {python.torch_trace} UNION ALL"
          " SELECT timestamp, name, duration_ms, step, 'span', pid, rank, host, job"
          " FROM {python.spans} WHERE duration_ms IS NOT NULL"},
    Table{"training_logs", Kind::kView, Origin::kProbe,
          "what the job logs about its training, one row for each step", kTrainingLogs,
          "SELECT min(timestamp) AS timestamp, source, max(epoch) AS epoch, max(step) AS step,"
          " max(value) FILTER (WHERE name = 'loss') AS loss{metrics}, pid, rank, host, job"
          " FROM {python.metrics} GROUP BY source, row, pid, rank, host, job"},
};

}  // namespace

std::span<const Table> Views() { return kTables; }

}  // namespace probing::table
