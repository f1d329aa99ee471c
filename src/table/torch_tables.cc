// Tables about training: what PyTorch does, and the values it works on.
#include <array>

#include "table/computed.h"
#include "table/registry.h"

namespace probing::table {
namespace {

using enum Type;

constexpr Column kTime{"timestamp", kTimestamp, "", "when it happened"};

constexpr std::array kTorchTrace{
    kTime,
    Column{"step", kInt64, "", "training step"},
    Column{"seq", kInt64, "", "position within the step"},
    Column{"module", kString, "", "path of the module in the model"},
    Column{"module_type", kString, "", "class of the module"},
    Column{"operation_name", kString, "", "module and stage in one"},
    Column{"stage", kString, "", "forward, backward or step"},
    Column{"allocated", kDouble, "MB", "GPU memory allocated after it"},
    Column{"max_allocated", kDouble, "MB", "highest GPU memory allocated so far"},
    Column{"cached", kDouble, "MB", "GPU memory kept by the allocator"},
    Column{"duration", kDouble, "s", "how long it took"},
    Column{"duration_ms", kDouble, "ms", "the same in milliseconds"},
    Column{"device", kString, "", "where it ran: cpu, cuda:0"},
    Column{"sampled", kBool, "", "whether only some steps are traced and this is one of them"},
    Column{"phase", kString, "",
           "as in python.torch_steps; infer: also calls on a thread that does not train"},
};

constexpr std::array kTorchSteps{
    kTime,
    Column{"step", kInt64, "",
           "training step: updates of the parameters before it; of an evaluation, the next one"},
    Column{"duration", kDouble, "s", "the whole step"},
    Column{"data_wait", kDouble, "s", "waiting for the next batch"},
    Column{"forward", kDouble, "s", "in forward passes"},
    Column{"backward", kDouble, "s", "in backward passes"},
    Column{"optimizer", kDouble, "s", "in the optimizer"},
    Column{"overhead", kDouble, "s", "spent by Probing itself"},
    Column{"phase", kString, "",
           "train; validate or infer: calls of a model without gradients, which are no step"},
    Column{"step_source", kString, "",
           "where the number comes from: job, optimizer (its state), or counted since tracing began"},
    Column{"backward_passes", kInt64, "", "backward passes in it: micro-batches, or several losses"},
};

constexpr std::array kVariables{
    kTime,
    Column{"step", kInt64, "", "training step"},
    Column{"func", kString, "", "function the variable belongs to"},
    Column{"name", kString, "", "expression that was asked for"},
    Column{"value", kString, "", "its value as text"},
    Column{"number", kDouble, "", "its value when it is one number"},
    Column{"kind", kString, "", "type of the value"},
    Column{"shape", kString, "", "shape of a tensor or array"},
    Column{"dtype", kString, "", "element type of a tensor or array"},
};

constexpr std::array kTensors{
    Column{"name", kString, "", "name of the parameter or variable that holds it, where one is known"},
    Column{"shape", kString, "", "as in [64, 3, 224, 224]"},
    Column{"dtype", kString, "", "element type"},
    Column{"device", kString, "", "cpu, cuda:0"},
    Column{"bytes", kInt64, "bytes", "memory of its storage"},
    Column{"requires_grad", kBool, "", "whether gradients are computed for it"},
    Column{"grad_norm", kDouble, "", "norm of its gradient; computed when this column is asked for"},
    Column{"nonfinite", kInt64, "", "how many of its numbers are NaN or infinite; computed when asked for"},
    Column{"holder", kString, "", "what keeps it alive"},
};

constexpr std::array kModules{
    Column{"name", kString, "", "path of the module in the model"},
    Column{"type", kString, "", "class of the module"},
    Column{"parameters", kInt64, "", "numbers in its own parameters"},
    Column{"bytes", kInt64, "bytes", "memory of its own parameters and buffers"},
    Column{"device", kString, "", "where its parameters are"},
    Column{"dtype", kString, "", "element type of its parameters"},
    Column{"training", kBool, "", "whether it is in training mode"},
};

constexpr std::array kCollectives{
    kTime,
    Column{"seq", kInt64, "", "number of the operation in its group"},
    Column{"process_group", kString, "", "group of ranks that takes part"},
    Column{"op", kString, "", "all_reduce, broadcast, …"},
    Column{"bytes", kInt64, "bytes", "size of the tensors"},
    Column{"dtype", kString, "", "element type"},
    Column{"state", kString, "", "scheduled (it goes on behind the call), completed or failed"},
    Column{"wait_ms", kDouble, "ms", "time until it began"},
    Column{"duration_ms", kDouble, "ms", "time from its beginning to its end, where that is known"},
    Column{"step", kInt64, "", "training step, where a call from Python was seen"},
    Column{"p2p", kBool, "", "a send or receive between two ranks, which have numbers of their own"},
    Column{"members", kString, "", "ranks of the group, as in [0, 1, 2, 3], where torch knows"},
    Column{"description", kString, "", "what the job calls the group"},
    Column{"sizes", kString, "", "shapes of its input, as in [[64, 128]]"},
    Column{
        "source", kString, "",
        "flight_recorder: torch's own record, which is read when this table is asked for; NULL: a call from "
        "Python was seen"},
};

constexpr std::array kCollectivesComputed{
    Column{
        "lateness", kDouble, "ms",
        "how long after the first rank that is known of its job this rank entered it, by the clocks of their "
        "hosts; so ask global.python.collectives; NULL for sends and receives"},
};
constexpr std::string_view kCollectivesSql =
    "SELECT *, CASE WHEN NOT coalesce(p2p, false) THEN (timestamp_ns - min(timestamp_ns) OVER"
    " (PARTITION BY job, process_group, seq, coalesce(p2p, false))) / 1e6 END AS lateness"
    " FROM {python.collectives}";

constexpr std::array kCollectiveStarts{
    kTime,
    Column{"seq", kInt64, "", "number of the operation in its group"},
    Column{"process_group", kString, "", "group of ranks that takes part"},
    Column{"op", kString, "", "all_reduce, broadcast, …"},
    Column{"bytes", kInt64, "bytes", "size of the tensors"},
    Column{"step", kInt64, "", "training step"},
    Column{"dtype", kString, "", "element type"},
    Column{"p2p", kBool, "", "a send or receive between two ranks, which have numbers of their own"},
    Column{"members", kString, "", "ranks of the group, as in [0, 1, 2, 3], where torch knows"},
    Column{"source", kString, "", "as in python.collectives"},
};

constexpr std::array kProcessGroups{
    kTime,
    Column{"process_group", kString, "", "its name, as in python.collectives"},
    Column{"description", kString, "", "what the job calls it"},
    Column{"members", kString, "", "its ranks, as in [0, 1, 2, 3], where torch knows"},
    Column{"enqueued", kInt64, "", "number of the last collective that this rank has entered"},
    Column{"completed", kInt64, "", "number of the last one that is over on this rank"},
};

constexpr std::array kFlightRecorder{
    kTime,
    Column{"seq", kInt64, "", "number of the operation in its group"},
    Column{"process_group", kString, "", "group of ranks that takes part"},
    Column{"op", kString, "", "all_reduce, broadcast, …"},
    Column{"backend", kString, "", "gloo, nccl"},
    Column{"bytes", kInt64, "bytes", "size of its input"},
    Column{"dtype", kString, "", "element type of its input"},
    Column{"state", kString, "", "scheduled, started or completed"},
    Column{"wait_ms", kDouble, "ms", "time until it began, where torch knows"},
    Column{"duration_ms", kDouble, "ms", "time until its end, where torch knows"},
};

constexpr std::array kTensorCensus{
    kTime,
    Column{"step", kInt64, "", "training step that had just ended"},
    Column{"type", kString, "", "class; NULL in the row of all kinds that have none of their own"},
    Column{"shape", kString, "", "as in [64, 3, 224, 224]"},
    Column{"dtype", kString, "", "element type"},
    Column{"device", kString, "", "cpu, cuda:0"},
    Column{"count", kInt64, "", "how many are alive"},
    Column{"bytes", kInt64, "bytes", "memory of all of them"},
};

constexpr std::array kLeaks{
    Column{"type", kString, "", "class of the objects"},
    Column{"shape", kString, "", "of tensors"},
    Column{"dtype", kString, "", "element type of tensors"},
    Column{"device", kString, "", "where tensors are"},
    Column{"count", kInt64, "", "how many are alive now"},
    Column{"bytes", kInt64, "bytes", "memory of tensors that are alive now"},
    Column{"grown", kInt64, "", "how many more these are than at first"},
    Column{"grown_bytes", kInt64, "bytes", "how much more memory that is"},
    Column{"made_by", kString, "",
           "operation of autograd that made a tensor, which keeps all that led to it"},
    Column{"holder", kString, "", "what keeps them alive, from the nearest to a variable"},
    Column{"module", kString, "",
           "path of the module that returned such a tensor; \"after PATH\" when its graph leads there; NULL: "
           "unknown"},
    Column{"since", kTimestamp, "", "when the first of the last 16 counts was made"},
    Column{"steps", kInt64, "", "over how many training steps it grew, with census=on"},
};

constexpr std::array kNonfinite{
    kTime,
    Column{"step", kInt64, "", "training step"},
    Column{"module", kString, "", "path of the module, or of the parameter"},
    Column{"module_type", kString, "", "class of the module"},
    Column{"stage", kString, "", "forward: its output; gradient: of the parameter, before the optimizer"},
    Column{"nans", kInt64, "", "how many numbers are NaN"},
    Column{"infs", kInt64, "", "how many are infinite"},
    Column{"numbers", kInt64, "", "how many there are"},
    Column{"shape", kString, "", "of the tensor"},
    Column{"origin", kBool, "",
           "whether it came from this module: the first finding of all, in a step in which each call was "
           "looked at, "
           "and its parameters are finite"},
};

constexpr std::array kCompiles{
    Column{"timestamp", kTimestamp, "", "when it began"},
    Column{"compile_id", kString, "", "torch's number: function/attempt, as in torch's own logs and traces"},
    Column{"func", kString, "",
           "function that was compiled; torch_dynamo_resume_in_… is what follows a graph break"},
    Column{"file", kString, "", "source file of the function"},
    Column{"lineno", kInt64, "", "first line of the function"},
    Column{"attempt", kInt64, "", "0 for the first time; later ones are recompilations"},
    Column{"reason", kString, "",
           "the guard that failed, so that it was compiled again: attempt before, expression; torch 2.6 and "
           "later"},
    Column{"fail_type", kString, "", "class of the error that ended it; NULL: it succeeded"},
    Column{"fail_reason", kString, "", "first line of that error, as in Dynamo recompile limit exceeded"},
    Column{"restarts", kString, "", "why tracing was begun again: graph breaks, as a rule"},
    Column{"guards", kInt64, "", "conditions that are checked at each call"},
    Column{"ops", kInt64, "", "operations in the graph"},
    Column{"seconds", kDouble, "s", "how long it took"},
    Column{"backend_seconds", kDouble, "s", "of it, in the backend"},
    Column{"inductor_seconds", kDouble, "s", "of it, in Inductor; NULL for other backends"},
    Column{"cache_hits", kInt64, "", "found in the caches of Inductor and AOTAutograd"},
    Column{"cache_misses", kInt64, "", "not found there"},
    Column{"graph_breaks", kInt64, "", "graph breaks of the function, where torch counts them"},
    Column{"is_forward", kBool, "", "false: the backward pass"},
};

constexpr std::array kRecompiles{
    Column{"timestamp", kTimestamp, "", "when the compilation began"},
    Column{"func", kString, "", "function that was compiled"},
    Column{"file", kString, "", "source file of the function"},
    Column{"lineno", kInt64, "", "first line of the function"},
    Column{"attempt", kInt64, "", "how often it had been compiled before"},
    Column{"reason", kString, "", "the guard that failed, as in python.compiles"},
    Column{"fail_reason", kString, "",
           "why it failed, as in Dynamo recompile limit exceeded; NULL: it did not"},
    Column{"seconds", kDouble, "s", "how long it took"},
    Column{"compile_id", kString, "", "torch's number, as in python.compiles"},
};

constexpr std::array kGraphBreaks{
    Column{"kind", kString, "", "graph_break, or unimplemented: tracing gave up"},
    Column{"reason", kString, "", "what torch.compile could not trace"},
    Column{"count", kInt64, "", "how often, since the process began"},
};

constexpr std::array kTables{
    Table{"python.torch_trace", Kind::kStored, Origin::kProbe, "every traced call of a PyTorch module",
          kTorchTrace},
    Table{"python.torch_steps", Kind::kStored, Origin::kProbe, "training steps and where their time went",
          kTorchSteps},
    Table{"python.variables", Kind::kStored, Origin::kProbe, "values of the expressions that were asked for",
          kVariables},
    Table{"python.tensors", Kind::kLive, Origin::kProbe, "tensors that are alive now", kTensors},
    Table{"python.modules", Kind::kLive, Origin::kProbe, "modules of the models that are alive now",
          kModules},
    Table{"python.collectives", Kind::kStored, Origin::kProbe, "collective operations between ranks",
          kCollectives, kCollectivesSql},
    Table{"python.collective_starts", Kind::kStored, Origin::kProbe,
          "collective operations a rank has entered; one that python.collectives has not is under way",
          kCollectiveStarts},
    Table{"python.process_groups", Kind::kStored, Origin::kProbe,
          "groups of ranks and how far this rank has come in each, from torch's Flight Recorder",
          kProcessGroups},
    Table{"python.flight_recorder", Kind::kLive, Origin::kProbe,
          "what torch itself remembers of its collectives, also of those that C++ starts", kFlightRecorder},
    Table{"python.tensor_census", Kind::kStored, Origin::kProbe,
          "tensors that were alive when a traced step ended, by kind, with census=on", kTensorCensus},
    Table{"python.leaks", Kind::kLive, Origin::kProbe,
          "what there is more and more of; each question counts once", kLeaks},
    Table{"python.nonfinite", Kind::kStored, Origin::kProbe,
          "where NaN or infinity was seen first, with nan=on", kNonfinite},
    Table{"python.compiles", Kind::kLive, Origin::kProbe,
          "the last 64 compilations of torch.compile, and why: also from before the probe came", kCompiles},
    Table{
        "python.recompiles", Kind::kStored, Origin::kProbe,
        "what torch.compile compiled again, or gave up, since the probe came and the 64 compilations before",
        kRecompiles},
    Table{"python.graph_breaks", Kind::kLive, Origin::kProbe,
          "what torch.compile could not trace, and how often", kGraphBreaks},
};

}  // namespace

std::span<const Table> TorchTables() { return kTables; }

std::span<const Column> ComputedColumns(const Table& table) {
  if (table.name == "python.collectives") return kCollectivesComputed;
  return {};
}

}  // namespace probing::table
