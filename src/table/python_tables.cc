// Tables about the interpreter: stacks, memory, what the job reports about itself.
#include <array>

#include "table/registry.h"

namespace probing::table {
namespace {

using enum Type;

constexpr Column kTime{"timestamp", kTimestamp, "", "when it happened"};

constexpr std::array kBacktrace{
    Column{"depth", kInt64, "", "0 is the frame that runs now"},
    Column{"func", kString, "", "qualified name of the function"},
    Column{"file", kString, "", "source file"},
    Column{"lineno", kInt64, "", "the line that runs now"},
    Column{"frame_type", kString, "", "Python; python.native_stacks has Native ones as well"},
    Column{
        "locals", kString, "JSON",
        "arguments and local variables by name; NULL unless this column is asked for, and without the right "
        "to eval"},
    Column{"tid", kInt64, "", "thread id of the kernel"},
};

constexpr std::array kStacks{
    Column{"depth", kInt64, "", "0 is the frame that runs now"},
    Column{"func", kString, "", "qualified name of the function"},
    Column{"file", kString, "", "source file"},
    Column{"lineno", kInt64, "", "the line that runs now"},
    Column{"frame_type", kString, "", "Python; python.native_stacks has Native ones as well"},
    Column{
        "locals", kString, "JSON",
        "arguments and local variables by name; NULL unless this column is asked for, and without the right "
        "to eval"},
    Column{"tid", kInt64, "", "thread id of the kernel"},
    Column{"thread_name", kString, "", "name of the thread as Python or the kernel knows it"},
    Column{"has_gil", kBool, "", "whether the thread holds the interpreter lock"},
    Column{"state", kString, "",
           "state of the thread in the kernel: running, sleeping, uninterruptible, stopped, traced (by a "
           "debugger)"},
    Column{"wait_channel", kString, "", "what the thread waits for in the kernel; NULL when it runs"},
    Column{"task", kString, "", "name of the asyncio task that the thread runs"},
    Column{"interpreter", kInt64, "", "id of the interpreter: 0 is the main one, others are subinterpreters"},
};

constexpr std::array kNativeStacks{
    Column{"depth", kInt64, "", "0 is the frame that runs now"},
    Column{"func", kString, "",
           "qualified name of the function, or the native symbol; NULL when it has none"},
    Column{"file", kString, "", "source file, or the library of a native frame; NULL for code of a JIT"},
    Column{"lineno", kInt64, "", "the line that runs now; NULL in native frames: see source"},
    Column{"frame_type", kString, "", "Python or Native"},
    Column{
        "source", kString, "",
        "file:line of a native frame, from debug information; NULL unless this column is asked for: it takes "
        "up to a second in a PyTorch process"},
    Column{"tid", kInt64, "", "thread id of the kernel"},
    Column{"thread_name", kString, "", "name of the thread as Python or the kernel knows it"},
    Column{"has_gil", kBool, "", "whether the thread holds the interpreter lock"},
    Column{"state", kString, "", "as in python.stacks"},
    Column{"wait_channel", kString, "", "what the thread waits for in the kernel; NULL when it runs"},
    Column{"merged", kBool, "", "false: in which order Python and native frames belong is not known"},
    Column{"interpreter", kInt64, "", "id of the interpreter of a Python frame: 0 is the main one"},
};

constexpr std::array kSamples{
    kTime,
    Column{"tid", kInt64, "", "thread id of the kernel"},
    Column{"stack", kString, "", "frames from the outermost to the innermost, separated by ;"},
    Column{"on_cpu", kBool, "", "whether the thread was running"},
    Column{"has_gil", kBool, "", "whether the thread held the interpreter lock"},
    Column{"weight", kDouble, "s", "the time this sample stands for"},
};

constexpr std::array kFlame{
    Column{"stack", kString, "", "frames from the outermost to the innermost, separated by ;"},
    Column{"samples", kInt64, "", "how often this stack was seen"},
    Column{"weight", kDouble, "s", "the time those samples stand for"},
    Column{"on_cpu", kInt64, "", "how many of them were running"},
    Column{"has_gil", kInt64, "", "how many of them held the interpreter lock"},
};

constexpr std::array kMemory{
    kTime,
    Column{"rss", kInt64, "bytes", "resident memory of the process"},
    Column{"vms", kInt64, "bytes", "mapped memory of the process"},
    Column{"heap", kInt64, "bytes", "resident memory it has allocated itself: no code, no files"},
    Column{"blocks", kInt64, "",
           "blocks in use in Python's own allocator; from here on NULL in rows from outside"},
    Column{"gc_gen0", kInt64, "", "objects allocated since the last collection of generation 0"},
    Column{"gc_gen1", kInt64, "", "collections of generation 0 since the last one of generation 1"},
    Column{"gc_gen2", kInt64, "", "collections of generation 1 since the last one of generation 2"},
    Column{"gc_objects", kInt64, "", "objects the collector tracks; NULL when counting them would take long"},
    Column{"tensor_count", kInt64, "", "live tensors at the last census, with census=on"},
    Column{"tensor_bytes", kInt64, "bytes", "memory of those tensors"},
    Column{"gpu_allocated", kInt64, "bytes", "GPU memory in tensors, as the framework counts it"},
    Column{"gpu_reserved", kInt64, "bytes", "GPU memory the framework keeps"},
};

constexpr std::array kGc{
    kTime,
    Column{"generation", kInt64, "", "the generation that was collected"},
    Column{"duration_ms", kDouble, "ms", "how long the collection took"},
    Column{"collected", kInt64, "", "objects freed"},
    Column{"uncollectable", kInt64, "", "objects found that could not be freed"},
};

constexpr std::array kThreads{
    Column{"tid", kInt64, "", "thread id of the kernel"},
    Column{"ident", kInt64, "", "threading.get_ident()"},
    Column{"name", kString, "", "name of the thread"},
    Column{"daemon", kBool, "", "whether the interpreter ends without waiting for it"},
    Column{"alive", kBool, "", "whether it has not finished"},
    Column{"main", kBool, "", "whether it is the main thread"},
};

constexpr std::array kImports{
    Column{"name", kString, "", "name of the module, as in sys.modules"},
    Column{"version", kString, "", "its __version__, where it has one"},
    Column{"file", kString, "", "where it was loaded from; NULL when built in"},
    Column{"package", kString, "", "the package it belongs to"},
    Column{"builtin", kBool, "", "whether it is part of the interpreter"},
};

constexpr std::array kExceptions{
    kTime,
    Column{"tid", kInt64, "", "thread id of the kernel"},
    Column{"type", kString, "", "class of the exception"},
    Column{"message", kString, "", "str() of the exception"},
    Column{"traceback", kString, "", "as Python prints it"},
    Column{"handled", kBool, "", "whether the job caught it"},
};

constexpr std::array kLogpoints{
    kTime,
    Column{"tid", kInt64, "", "thread id of the kernel"},
    Column{"file", kString, "", "source file of the log point"},
    Column{"lineno", kInt64, "", "line of the log point"},
    Column{"func", kString, "", "function that ran through it"},
    Column{"expression", kString, "", "what was asked for"},
    Column{"value", kString, "", "repr() of its value, or the error it raised"},
};

constexpr std::array kSpans{
    kTime,
    Column{"tid", kInt64, "", "thread id of the kernel"},
    Column{"span", kInt64, "", "number of the span in its process"},
    Column{"parent", kInt64, "", "number of the span around it; NULL at the top"},
    Column{"name", kString, "", "what probing.span() or probing.event() was given"},
    Column{"kind", kString, "", "span or event"},
    Column{"step", kInt64, "", "training step it belongs to"},
    Column{"duration_ms", kDouble, "ms", "how long it lasted; NULL for an event"},
    Column{"attributes", kString, "JSON", "values given with it"},
};

constexpr std::array kStalls{
    Column{"timestamp", kTimestamp, "", "when it began"},
    Column{"kind", kString, "",
           "event_loop (a loop of asyncio or uvloop did not turn), gil (kept while others waited for it), "
           "cpu_wait "
           "(either of them, but the machine was busy), step, span (longer than its limit), collective (this "
           "rank "
           "came last), exception, metric, log (a line of probing.stalls.log), event"},
    Column{"duration", kDouble, "s", "how long it took; 0 for a moment"},
    Column{"tid", kInt64, "", "thread id of the kernel, as seen from the host"},
    Column{"thread_name", kString, "", "name of the thread"},
    Column{"func", kString, "", "function of the line"},
    Column{"file", kString, "", "source file of the line"},
    Column{
        "lineno", kInt64, "",
        "the line of the program that took the time: the innermost one outside of installed packages and of "
        "the "
        "standard library; NULL when no stack could be read"},
    Column{"why", kString, "",
           "what it was, and what the thread did: ran, slept, waited for the GIL or a CPU"},
    Column{"cpu_wait", kDouble, "s", "of it, the thread could have run but had no CPU"},
    Column{"waiting_threads", kInt64, "", "threads that waited for the GIL because of it"},
    Column{"stack", kString, "",
           "the stack that it spent most time in: function (file:line), from the outermost, separated by ;"},
    Column{"before", kString, "", "the stack just before it"},
    Column{"stacks", kString, "JSON",
           "what the thread did before and during it: [{at, seconds, stack}], at in seconds from its start"},
    Column{"looks", kInt64, "", "how many different stacks of the thread were seen during it"},
    Column{"ended", kBool, "", "false: it still went on when this was written"},
    Column{"left_out", kInt64, "", "stalls before this one that were not written: there were too many"},
};

constexpr std::array kMetrics{
    kTime,
    Column{"source", kString, "", "log (probing.log), tensorboard, wandb or exprs"},
    Column{"row", kInt64, "", "values with the same source and row form one row of training_logs"},
    Column{"epoch", kInt64, "", "epoch the value belongs to"},
    Column{"step", kInt64, "", "training step the value belongs to"},
    Column{"name", kString, "", "name of the metric"},
    Column{"value", kDouble, "", "the value; NULL when it is no number"},
    Column{"text", kString, "", "the value of a metric that is no number"},
};

constexpr std::array kTables{
    Table{"python.backtrace", Kind::kLive, Origin::kOutside, "where the main thread is now", kBacktrace},
    Table{"python.stacks", Kind::kLive, Origin::kOutside, "where every thread is now", kStacks},
    Table{"python.native_stacks", Kind::kLive, Origin::kOutside,
          "where every thread is now, with native frames, also of threads without Python; a thread that runs "
          "is "
          "held for some tens of microseconds",
          kNativeStacks},
    Table{"python.samples", Kind::kLive, Origin::kOutside, "stacks taken at intervals", kSamples},
    Table{"python.flame", Kind::kView, Origin::kOutside, "python.samples folded: one row for each stack",
          kFlame,
          "SELECT stack, count(*) AS samples, sum(weight) AS weight,"
          " count(*) FILTER (WHERE on_cpu) AS on_cpu, count(*) FILTER (WHERE has_gil) AS has_gil,"
          " pid, rank, host, job FROM {python.samples} GROUP BY stack, pid, rank, host, job"},
    Table{"python.memory", Kind::kStored, Origin::kProbe,
          "memory over time: the process every second, the interpreter every few", kMemory},
    Table{"python.gc", Kind::kStored, Origin::kProbe, "runs of the garbage collector", kGc},
    Table{"python.threads", Kind::kLive, Origin::kProbe, "threads as Python knows them", kThreads},
    Table{"python.imports", Kind::kLive, Origin::kProbe, "modules that are loaded", kImports},
    Table{"python.exceptions", Kind::kStored, Origin::kProbe, "exceptions that were raised", kExceptions},
    Table{"python.logpoints", Kind::kStored, Origin::kProbe, "values recorded by `probing debug log`",
          kLogpoints},
    Table{"python.spans", Kind::kStored, Origin::kProbe, "what probing.span() and probing.event() recorded",
          kSpans},
    Table{"python.stalls", Kind::kStored, Origin::kOutside,
          "what took too long, with the stacks from before and during it", kStalls},
    Table{"python.metrics", Kind::kStored, Origin::kProbe,
          "what the job logs about its training, value by value", kMetrics},
};

}  // namespace

std::span<const Table> PythonTables() { return kTables; }

}  // namespace probing::table
