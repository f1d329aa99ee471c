# python.flight_recorder: what torch itself remembers of its collectives, also of those that C++ starts, as
# DistributedDataParallel does. Runs in the target, on a thread of the probe; says nothing to any other
# rank. Python 3.6 syntax, built-in modules only.
import sys

DUMPS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")  # newer first
BYTES = {"Float": 4, "Double": 8, "Half": 2, "BFloat16": 2, "Long": 8, "Int": 4, "Short": 2, "Bool": 1}


def flight_entries():
    distributed = sys.modules.get("torch._C._distributed_c10d")
    dumps = [getattr(distributed, name, None) for name in DUMPS]
    dump, json = next((one for one in dumps if one is not None), None), sys.modules.get("json")
    if dump is None or json is None:
        return []
    return json.loads(dump()).get("entries", [])


def bytes_of_tensors(sizes, dtypes):
    total = 0
    for shape, dtype in zip(sizes, dtypes):
        count = BYTES.get(dtype, 1)  # the 8-bit types
        for size in shape:
            count *= size
        total += count
    return total


def milliseconds(begin, end):
    return (end - begin) / 1e6 if begin and end else None


def flight_recorder_table(wanted):
    for entry in flight_entries():
        group, op = entry.get("process_group") or ["", ""], entry.get("profiling_name", "")
        created, started = entry.get("time_created_ns"), entry.get("time_discovered_started_ns")
        ended = entry.get("time_discovered_completed_ns")
        sizes, dtypes = entry.get("input_sizes", []), entry.get("input_dtypes", [])
        yield {
            "timestamp": created,
            "seq": entry.get("p2p_seq_id") if entry.get("is_p2p") else entry.get("collective_seq_id"),
            "process_group": group[1] or group[0],
            "op": op.rpartition(":")[2],
            "backend": op.rpartition(":")[0] or None,
            "bytes": bytes_of_tensors(sizes, dtypes),
            "dtype": dtypes[0].lower() if dtypes else None,
            # Gloo never says more than "scheduled", but takes those that are over off its list.
            "state": "completed" if entry.get("retired") else entry.get("state"),
            "wait_ms": milliseconds(created, started),
            "duration_ms": milliseconds(started or created, ended),
        }
