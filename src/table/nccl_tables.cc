// What NCCL says by itself: its RAS port, read from outside, and its profiler plugin, which runs in the job.
#include <array>

#include "table/registry.h"

namespace probing::table {
namespace {

using enum Type;

constexpr std::array kRasCommunicators{
    Column{"communicator", kString, "",
           "hash of the communicator; NULL where NCCL's text names only its group"},
    Column{"label", kString, "", "number of the communicator in this answer, as in #0-1"},
    Column{"size", kInt64, "", "ranks it was made for"},
    Column{"answered", kInt64, "", "ranks that told their state; NULL in text of NCCL before 2.28"},
    Column{"missing", kInt64, "", "ranks that did not; NULL in text of NCCL before 2.28"},
    Column{"status", kString, "", "INIT, RUNNING, FINALIZE, ABORT or NOCOMM: the latest of its ranks"},
    Column{"errors", kString, "", "OK, or those of MISMATCH, ERROR and INCOMPLETE that apply"},
    Column{"nccl_version", kString, "", "version of NCCL"},
    Column{"timeouts", kInt64, "", "connections on which NCCL's own question was not answered in time"},
    Column{"address", kString, "", "the RAS port that was asked"},
};

constexpr std::array kRasRanks{
    Column{"communicator", kString, "", "hash of the communicator"},
    Column{"size", kInt64, "", "ranks the communicator was made for"},
    Column{"comm_rank", kInt64, "", "rank in the communicator"},
    Column{"node", kString, "", "address of the rank's host, as NCCL knows it"},
    Column{"is_local", kBool, "", "whether that is an address of this host"},
    Column{"process", kInt64, "", "process id on that host; NULL when NCCL does not know it"},
    Column{"gpu", kInt64, "", "CUDA device number in that process"},
    Column{"status", kString, "",
           "INIT, RUNNING, FINALIZE, ABORT; NOCOMM: answers and is no member (any more); UNRESPONSIVE; DEAD"},
    Column{"error", kString, "", "what NCCL reports of this rank; NULL when all is well"},
    Column{"op", kString, "", "operation in which it is furthest behind; NULL when it is not behind"},
    Column{"launched", kInt64, "", "operations of that kind it has launched; without one, of all kinds"},
    Column{"behind", kInt64, "", "operations it is behind the furthest rank; NULL when it told no counts"},
    Column{"counts", kString, "JSON", "operations launched by kind; NULL in text of NCCL before 2.28"},
    Column{"still_s", kDouble, "s",
           "seconds for which its state has not changed, as far as this table was read since then"},
    Column{"address", kString, "", "the RAS port that was asked"},
};

// Written by libprobing-nccl.so (src/nccl), which has the same columns, in the same order, after `timestamp`.
constexpr Column kWritten{"timestamp", kTimestamp, "", "when the row was written: the operation was over"};

constexpr std::array kCollectives{
    kWritten,
    Column{"communicator", kString, "", "hash of the communicator, as in nccl.ras_ranks"},
    Column{"comm_name", kString, "", "name that the job gave it; NULL without one"},
    Column{"comm_rank", kInt64, "", "rank in the communicator"},
    Column{"comm_size", kInt64, "", "ranks of the communicator"},
    Column{"op", kString, "", "AllReduce, AllGather, Send, … as NCCL calls them"},
    Column{"seq", kInt64, "", "number of the collective in its communicator; NULL for Send and Recv"},
    Column{"count", kInt64, "", "elements"},
    Column{"datatype", kString, "", "type of the elements, as in ncclFloat32"},
    Column{"algorithm", kString, "", "RING, TREE, NVLS, …; NULL for Send and Recv"},
    Column{"protocol", kString, "", "SIMPLE, LL, LL128; NULL for Send and Recv"},
    Column{"channels", kInt64, "", "channels it uses"},
    Column{"root", kInt64, "", "rank that has or gets the data, where there is one"},
    Column{"peer", kInt64, "", "the other rank, of Send and Recv"},
    Column{"started", kTimestamp, "", "when the job asked NCCL for it"},
    Column{"duration_ms", kDouble, "ms", "from then until the last part of it was over"},
    Column{"enqueue_ms", kDouble, "ms", "of it, until NCCL had taken it: the job's own thread was busy"},
    Column{"gpu_ms", kDouble, "ms",
           "from the first channel's start on the GPU to the last one's end; GPU clock"},
    Column{"is_complete", kBool, "", "whether the end of all its channels was seen"},
    Column{"lost", kInt64, "", "events that found no room in this process so far"},
};

constexpr std::array kNetwork{
    kWritten,
    Column{"communicator", kString, "", "hash of the communicator"},
    Column{"comm_rank", kInt64, "", "rank in the communicator"},
    Column{"op", kString, "", "operation it is a part of; NULL when that belongs to another process"},
    Column{"seq", kInt64, "", "number of that collective in its communicator"},
    Column{"direction", kString, "", "send or recv"},
    Column{"peer", kInt64, "", "the other rank"},
    Column{"channel", kInt64, "", "channel of the operation"},
    Column{"steps", kInt64, "", "network transfers that it consists of"},
    Column{"bytes", kInt64, "bytes", "transferred, as far as NCCL told"},
    Column{"started", kTimestamp, "", "when the proxy began with it"},
    Column{"duration_ms", kDouble, "ms", "until it was over"},
    Column{"gpu_wait_ms", kDouble, "ms", "sum over its steps: waiting for the GPU to make or take the data"},
    Column{"peer_wait_ms", kDouble, "ms", "waiting until the other rank had room; 0 for recv"},
    Column{"net_wait_ms", kDouble, "ms", "waiting for the network: data on its way"},
    Column{"lost", kInt64, "", "events that found no room in this process so far"},
};

constexpr std::array kTables{
    Table{"nccl.ras_communicators", Kind::kLive, Origin::kOutside,
          "NCCL's communicators of this host's jobs, from its RAS port", kRasCommunicators},
    Table{"nccl.ras_ranks", Kind::kLive, Origin::kOutside,
          "ranks of NCCL's communicators: missing, dead, behind; from its RAS port", kRasRanks},
    Table{"nccl.collectives", Kind::kStored, Origin::kProbe,
          "NCCL's operations over time, from its profiler plugin interface", kCollectives},
    Table{"nccl.network", Kind::kStored, Origin::kProbe,
          "network parts of NCCL's operations over time, from its profiler plugin interface", kNetwork},
};

}  // namespace

std::span<const Table> NcclTables() { return kTables; }

}  // namespace probing::table
