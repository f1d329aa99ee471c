// Tables of a profile: what torch's profiler has recorded of a running job, or a trace that it wrote.
#include <array>

#include "table/registry.h"

namespace probing::table {
namespace {

using enum Type;

constexpr Column kStart{"timestamp", kTimestamp, "", "when it began"};

constexpr std::array kTorchOps{
    kStart,
    Column{"op", kString, "", "the operator, as in aten::mm; of other kinds the name"},
    Column{
        "kind", kString, "",
        "op; annotation (record_function and what torch marks itself); runtime (a call of CUDA or ROCm, on "
        "the CPU); python (a function, when stacks were asked for)"},
    Column{"step", kInt64, "", "step of the profile (ProfilerStep#N) within which it began"},
    Column{"scope", kString, "", "innermost annotation around it, without those of steps"},
    Column{
        "module", kString, "",
        "innermost nn.Module around it, where the profile has them (stacks, module hierarchy); of a backward "
        "operator that of its forward one"},
    Column{"thread", kInt64, "", "thread id, as the kernel counts"},
    Column{"thread_name", kString, "", "name of the thread, where the profile has it"},
    Column{"duration_us", kDouble, "us", "how long it took on the CPU"},
    Column{"self_us", kDouble, "us",
           "the same without what it called, of operators, annotations and runtime"},
    Column{"depth", kInt64, "", "how many operators and annotations are around it"},
    Column{"op_id", kInt64, "", "number of the operator in the profile, which gpu.kernels has, too"},
    Column{"parent_id", kInt64, "", "op_id of the operator or annotation around it"},
    Column{"correlation", kInt64, "", "of a runtime call: number that what it started on the GPU has, too"},
    Column{"sequence", kInt64, "", "of autograd: a backward operator has that of its forward one"},
    Column{"shapes", kString, "", "shapes of its inputs, when they were asked for"},
    Column{"dtypes", kString, "", "element types of its inputs, when shapes were asked for"},
    Column{"stack", kString, "", "Python stack, when it was asked for and torch has it"},
    Column{"bytes", kInt64, "bytes",
           "memory it allocated less what it freed, without what it called, in traces made with "
           "profile_memory=True"},
    Column{"profile", kInt64, "", "number of the profile; the newest has the largest"},
};

constexpr std::array kKernels{
    kStart,
    Column{"name", kString, "", "the kernel, or what was copied from where to where"},
    Column{"kind", kString, "", "kernel, memcpy, memset, sync (the device waits) or annotation"},
    Column{"communication", kBool, "", "whether it is a collective's kernel (NCCL, RCCL, HCCL)"},
    Column{"device", kInt64, "", "number of the device"},
    Column{"stream", kInt64, "", "stream of the device; -1: none"},
    Column{"duration_us", kDouble, "us", "how long it took on the device"},
    Column{"op", kString, "", "operator that started it: the innermost around the call"},
    Column{"op_id", kInt64, "", "its number, as in python.torch_ops"},
    Column{"module", kString, "", "module of that operator, as in python.torch_ops"},
    Column{"scope", kString, "", "innermost annotation around the call that started it"},
    Column{"step", kInt64, "", "step of the profile within which it was started"},
    Column{"correlation", kInt64, "", "number that the call which started it has, too"},
    Column{"launch_us", kDouble, "us", "from the beginning of the call that started it until it ran"},
    Column{"grid", kString, "", "blocks of a kernel, as in [8, 16, 5]"},
    Column{"block", kString, "", "threads of a block, as in [128, 1, 1]"},
    Column{"bytes", kInt64, "bytes", "how much was copied or set"},
    Column{"profile", kInt64, "", "number of the profile; the newest has the largest"},
};

constexpr std::array kMemoryBlocks{
    Column{"timestamp", kTimestamp, "", "when the snapshot was taken"},
    Column{"device", kInt64, "", "number of the device"},
    Column{"stream", kInt64, "", "stream the memory belongs to"},
    Column{"segment", kInt64, "", "address of the piece the allocator has got from the driver"},
    Column{"segment_bytes", kInt64, "bytes", "how large that is"},
    Column{"segment_type", kString, "", "large (allocations above 1 MB) or small"},
    Column{"address", kInt64, "", "address of the block"},
    Column{"bytes", kInt64, "bytes", "size of the block; of a failed allocation what was asked for"},
    Column{"requested_bytes", kInt64, "bytes", "what the program asked for; the rest is lost to rounding"},
    Column{"state", kString, "",
           "allocated; pending_free (freed, another stream may still use it); free (kept for the next "
           "allocation); failed (an allocation that ended in an out-of-memory error)"},
    Column{"func", kString, "",
           "function that allocated it: the innermost that is not torch's own; NULL: it is free, or was "
           "allocated while torch recorded no history"},
    Column{"file", kString, "", "source file of that function"},
    Column{"lineno", kInt64, "", "line in it"},
    Column{"stack", kString, "", "all functions, outermost first, separated by semicolons"},
    Column{"age_s", kDouble, "s", "how long ago it was allocated, where torch's history goes back so far"},
    Column{"snapshot", kInt64, "", "number of the snapshot; the newest has the largest"},
};

constexpr std::array kTables{
    Table{"gpu.memory_blocks", Kind::kStored, Origin::kProbe,
          "segments and blocks of torch's GPU allocator, and who allocated them (`probing memory --gpu`, or "
          "a snapshot of torch.cuda.memory)",
          kMemoryBlocks},
    Table{"python.torch_ops", Kind::kStored, Origin::kProbe,
          "operators of a profile (`probing profile`, or a trace of torch.profiler)", kTorchOps},
    Table{"gpu.kernels", Kind::kStored, Origin::kProbe, "kernels, copies and waits of a profile on the GPU",
          kKernels},
};

// Views. Times of profiles are exact to the nanosecond in timestamp_ns. The union of intervals is summed row
// by row: in the order of their beginnings, each adds what lies behind the latest end so far.

constexpr Column kProfile{"profile", kInt64, "", "number of the profile"};
constexpr Column kDevice{"device", kInt64, "", "number of the device"};

constexpr std::array kGpuUse{
    kProfile,
    kDevice,
    Column{"span_us", kDouble, "us", "from the beginning of its first work to the end of its last"},
    Column{"busy_us", kDouble, "us", "within that, at least one kernel, copy or memset was running"},
    Column{"idle_us", kDouble, "us", "none was"},
    Column{"idle_share", kDouble, "", "idle_us / span_us, between 0 and 1"},
    Column{"compute_us", kDouble, "us", "at least one kernel was running that is not a collective's"},
    Column{"communication_us", kDouble, "us", "a collective's kernel was running"},
    Column{"overlapped_us", kDouble, "us", "of that, a kernel of computation was running as well"},
    Column{"exposed_us", kDouble, "us", "of that, nothing but communication (or copies) was running"},
    Column{"exposed_share", kDouble, "", "exposed_us / span_us, between 0 and 1"},
    Column{"copy_us", kDouble, "us", "a copy or a memset was running"},
};

constexpr std::array kKernelCosts{
    kProfile,
    Column{"module", kString, "", "module of the operator that started it, where the profile has modules"},
    Column{"scope", kString, "", "innermost annotation around the call that started it"},
    Column{"op", kString, "", "operator that started it"},
    Column{"name", kString, "", "the kernel, or the kind of copy"},
    Column{"kind", kString, "", "kernel, memcpy or memset"},
    Column{"calls", kInt64, "", "how often it ran"},
    Column{"total_us", kDouble, "us", "time on the device of all of them"},
    Column{"mean_us", kDouble, "us", "of one"},
    Column{"max_us", kDouble, "us", "of the longest"},
    Column{"share", kDouble, "", "of the time of all kernels, copies and memsets, between 0 and 1"},
};

constexpr std::array kOpCosts{
    kProfile,
    Column{"op", kString, "", "the operator, annotation or runtime call"},
    Column{"kind", kString, "", "op, annotation or runtime"},
    Column{"calls", kInt64, "", "how often"},
    Column{"total_us", kDouble, "us", "time on the CPU, with what it called"},
    Column{"self_us", kDouble, "us", "without that"},
    Column{"mean_us", kDouble, "us", "of one, with what it called"},
    Column{"gpu_us", kDouble, "us", "time on the device of what it started itself"},
    Column{"bytes", kInt64, "bytes", "memory allocated less freed, in traces made with profile_memory=True"},
};

constexpr std::array kLaunches{
    kProfile,
    Column{"name", kString, "", "the kernel, or the kind of copy"},
    Column{"op", kString, "", "operator that started it"},
    Column{"calls", kInt64, "", "how many of them the profile has with the call that started them"},
    Column{"min_us", kDouble, "us", "shortest time from the call until it ran: that of an empty queue"},
    Column{"median_us", kDouble, "us", "of half of them it was at most this"},
    Column{"max_us", kDouble, "us", "longest; long ones waited in the queue of their stream"},
    Column{"call_us", kDouble, "us", "median time that the call itself took on the CPU"},
};

constexpr std::array kCriticalPath{
    kProfile,
    Column{"step", kInt64, "", "step of the profile; NULL: outside of any"},
    Column{"place", kString, "",
           "cpu: an operator's own work; gpu: the CPU waited for this; wait: it waited, and no "
           "kernel was running"},
    Column{"name", kString, "", "the operator, or the kernel"},
    Column{"path_us", kDouble, "us", "how much of the step's time it was"},
    Column{"share", kDouble, "", "of all that was found of the step, between 0 and 1"},
};

constexpr std::array kViews{
    Table{
        "gpu.utilization", Kind::kView, Origin::kProbe,
        "of each profile and device: how long it worked, idled, communicated with nothing else going on",
        kGpuUse,
        "WITH work AS (SELECT pid, rank, host, profile, device, timestamp_ns AS s,"
        " timestamp_ns + CAST(duration_us * 1000 AS BIGINT) AS e, kind, communication"
        " FROM {gpu.kernels} WHERE kind IN ('kernel', 'memcpy', 'memset')),"
        " ends AS (SELECT *,"
        " max(e) OVER (PARTITION BY pid, host, profile, device ORDER BY s, e"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS any_end,"
        " max(e) FILTER (WHERE kind = 'kernel') OVER (PARTITION BY pid, host, profile, device ORDER BY s, e"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS kernel_end,"
        " max(e) FILTER (WHERE kind = 'kernel' AND NOT communication) OVER (PARTITION BY pid, host, profile,"
        " device ORDER BY s, e ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS compute_end,"
        " max(e) FILTER (WHERE communication) OVER (PARTITION BY pid, host, profile, device ORDER BY s, e"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS communication_end,"
        " max(e) FILTER (WHERE kind <> 'kernel') OVER (PARTITION BY pid, host, profile, device ORDER BY s, e"
        " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS copy_end FROM work),"
        " sums AS (SELECT profile, device, (max(e) - min(s)) / 1000.0::DOUBLE AS span_us,"
        " sum(greatest(0, e - greatest(s, coalesce(any_end, s)))) / 1000.0::DOUBLE AS busy_us,"
        " coalesce(sum(greatest(0, e - greatest(s, coalesce(kernel_end, s)))) FILTER (WHERE kind = "
        "'kernel'), 0)"
        " / 1000.0::DOUBLE AS kernel_us,"
        " coalesce(sum(greatest(0, e - greatest(s, coalesce(compute_end, s))))"
        " FILTER (WHERE kind = 'kernel' AND NOT communication), 0) / 1000.0::DOUBLE AS compute_us,"
        " coalesce(sum(greatest(0, e - greatest(s, coalesce(communication_end, s))))"
        " FILTER (WHERE communication), 0) / 1000.0::DOUBLE AS communication_us,"
        " coalesce(sum(greatest(0, e - greatest(s, coalesce(copy_end, s)))) FILTER (WHERE kind <> 'kernel'), "
        "0)"
        " / 1000.0::DOUBLE AS copy_us, pid, rank, host FROM ends GROUP BY pid, rank, host, profile, device)"
        " SELECT profile, device, span_us, busy_us, span_us - busy_us AS idle_us,"
        " (span_us - busy_us) / nullif(span_us, 0) AS idle_share, compute_us, communication_us,"
        " communication_us - (kernel_us - compute_us) AS overlapped_us, kernel_us - compute_us AS exposed_us,"
        " (kernel_us - compute_us) / nullif(span_us, 0) AS exposed_share, copy_us, pid, rank, host FROM "
        "sums"},
    Table{"gpu.kernel_costs", Kind::kView, Origin::kProbe,
          "kernels of a profile by module, annotation, operator and name", kKernelCosts,
          "SELECT profile, module, scope, op, name, kind, count(*) AS calls, sum(duration_us) AS total_us,"
          " avg(duration_us) AS mean_us, max(duration_us) AS max_us,"
          " sum(duration_us) / nullif(sum(sum(duration_us)) OVER (PARTITION BY pid, host, profile), 0) AS "
          "share,"
          " pid, rank, host FROM {gpu.kernels} WHERE kind IN ('kernel', 'memcpy', 'memset')"
          " GROUP BY pid, rank, host, profile, module, scope, op, name, kind"},
    Table{
        "gpu.launches", Kind::kView, Origin::kProbe,
        "how long kernels of a profile waited from the call that started them until they ran", kLaunches,
        "SELECT k.profile, k.name, k.op, count(*) AS calls, min(k.launch_us) AS min_us,"
        " median(k.launch_us) AS median_us, max(k.launch_us) AS max_us, median(c.duration_us) AS call_us,"
        " k.pid, k.rank, k.host FROM {gpu.kernels} k LEFT JOIN {python.torch_ops} c ON c.kind = 'runtime' AND"
        " c.correlation = k.correlation AND c.profile = k.profile AND c.pid = k.pid AND c.host = k.host"
        " WHERE k.launch_us IS NOT NULL AND k.kind IN ('kernel', 'memcpy', 'memset')"
        " GROUP BY k.pid, k.rank, k.host, k.profile, k.name, k.op"},
    Table{"python.critical_path", Kind::kView, Origin::kProbe,
          "what the time of a profile's steps went to, as far as it held them up; an approximation",
          kCriticalPath,
          "WITH waits AS (SELECT pid, rank, host, profile, step, timestamp_ns AS s,"
          " timestamp_ns + CAST(duration_us * 1000 AS BIGINT) AS e, self_us, row_number() OVER () AS id"
          " FROM {python.torch_ops} WHERE kind = 'runtime' AND (op LIKE '%Synchronize%' OR op LIKE "
          "'%StreamWait%'"
          " OR op IN ('cudaMemcpy', 'hipMemcpy', 'hipMemcpyWithStream', 'cuMemcpyDtoH_v2'))),"
          " during AS (SELECT w.*, k.name, greatest(w.s, k.timestamp_ns) AS from_ns,"
          " least(w.e, k.timestamp_ns + CAST(k.duration_us * 1000 AS BIGINT)) AS to_ns"
          " FROM waits w JOIN {gpu.kernels} k ON k.pid = w.pid AND k.host = w.host AND k.profile = w.profile"
          " AND k.kind IN ('kernel', 'memcpy', 'memset') AND k.timestamp_ns < w.e"
          " AND k.timestamp_ns + CAST(k.duration_us * 1000 AS BIGINT) > w.s),"
          " covered AS (SELECT *, greatest(0, to_ns - greatest(from_ns, coalesce(max(to_ns) OVER (PARTITION "
          "BY id"
          " ORDER BY from_ns, to_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), from_ns)))"
          " / 1000.0::DOUBLE AS us FROM during),"
          " parts AS (SELECT pid, rank, host, profile, step, 'cpu' AS place, op AS name, self_us AS us"
          " FROM {python.torch_ops} WHERE kind IN ('op', 'runtime') AND NOT (kind = 'runtime' AND"
          " (op LIKE '%Synchronize%' OR op LIKE '%StreamWait%'"
          " OR op IN ('cudaMemcpy', 'hipMemcpy', 'hipMemcpyWithStream', 'cuMemcpyDtoH_v2')))"
          " UNION ALL SELECT pid, rank, host, profile, step, 'gpu', name, us FROM covered"
          " UNION ALL SELECT w.pid, w.rank, w.host, w.profile, w.step, 'wait', 'no kernel running',"
          " greatest(0, w.self_us - coalesce(g.us, 0)) FROM waits w LEFT JOIN"
          " (SELECT id, sum(us) AS us FROM covered GROUP BY id) g ON g.id = w.id)"
          " SELECT profile, step, place, name, sum(us) AS path_us,"
          " sum(us) / nullif(sum(sum(us)) OVER (PARTITION BY pid, host, profile, step), 0) AS share,"
          " pid, rank, host FROM parts GROUP BY pid, rank, host, profile, step, place, name HAVING sum(us) > "
          "0"},
    Table{"python.op_costs", Kind::kView, Origin::kProbe, "operators of a profile by name", kOpCosts,
          "WITH started AS (SELECT pid, host, profile, op_id, sum(duration_us) AS us FROM {gpu.kernels}"
          " WHERE kind IN ('kernel', 'memcpy', 'memset') AND op_id IS NOT NULL GROUP BY pid, host, profile, "
          "op_id)"
          " SELECT o.profile, o.op, o.kind, count(*) AS calls, sum(o.duration_us) AS total_us,"
          " sum(o.self_us) AS self_us, avg(o.duration_us) AS mean_us, sum(s.us) AS gpu_us,"
          " CAST(sum(o.bytes) AS BIGINT) AS bytes, o.pid, o.rank, o.host FROM {python.torch_ops} o LEFT JOIN"
          " started s ON o.kind = 'op' AND s.op_id = o.op_id AND s.profile = o.profile AND s.pid = o.pid"
          " AND s.host = o.host WHERE o.kind <> 'python' GROUP BY o.pid, o.rank, o.host, o.profile, o.op, "
          "o.kind"},
};

}  // namespace

std::span<const Table> ProfileTables() { return kTables; }
std::span<const Table> ProfileViews() { return kViews; }

}  // namespace probing::table
