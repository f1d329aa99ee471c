# What torch.compile did, from what torch itself remembers of it: the last 64 compilations, also those from
# before the probe came. Nothing is switched on, called or changed: it reads a deque and a dict. Runs in the
# target, on a thread of the probe. Python 3.6 syntax, built-in modules.
import sys

LONGEST = 2000  # characters of a text


def dynamo_utils():
    """What is known of torch._dynamo.utils without importing it: {} where nothing was compiled."""
    module = sys.modules.get("torch._dynamo.utils")
    return vars(module) if module is not None else {}


def shortened(value):
    return None if value is None else str(value)[:LONGEST]


def metric_number(value):
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def metric_seconds(metrics, microseconds_name, seconds_name):
    """Torch before 2.6 has seconds only, later ones also whole microseconds."""
    microseconds = metric_number(metrics.get(microseconds_name))
    if microseconds is not None:
        return microseconds / 1e6
    value = metric_number(metrics.get(seconds_name))
    return None if value is None else float(value)


def metric_whole(value):
    value = metric_number(value)
    return None if value is None else int(value)


def metric_total(metrics, *names):
    known = [metric_number(metrics.get(name)) for name in names]
    known = [one for one in known if one is not None]
    return int(sum(known)) if known else None


def attempt_of(compile_id):
    """ "3/2" is the third compilation of the fourth function; "!0/3/2" has that of compiled autograd too."""
    last = str(compile_id).rpartition("/")[2].partition("_")[0]
    return int(last) if last.isdigit() else None


def line_of(text):
    """The others are hints for the reader, and stacks."""
    return None if text is None else " ".join(str(text).strip().partition("\n")[0].split())[:LONGEST]


def started_ns(metrics):
    microseconds = metric_whole(metrics.get("start_time_us"))
    begin = metric_number(metrics.get("start_time"))
    return microseconds * 1000 if microseconds else int(begin * 1e9) if begin is not None else None


def known_compilations():
    return list(dynamo_utils().get("_compilation_metrics", ()))


def compilations(metrics_of_all):
    """A dict for each, as python.compiles has it."""
    places = {}  # what failed at once says no function: its number does
    for one in metrics_of_all:
        metrics = vars(one)
        compile_id = shortened(metrics.get("compile_id"))
        place = (metrics.get("co_name"), metrics.get("co_filename"), metrics.get("co_firstlineno"))
        function = (compile_id or "").rpartition("/")[0]
        if place[0] is not None:
            places[function] = place
        name, file, line = places.get(function, place)
        restarts = sorted({line_of(reason) for reason in metrics.get("restart_reasons") or ()})
        yield {
            "timestamp": started_ns(metrics),
            "compile_id": compile_id,
            "func": shortened(name),
            "file": shortened(file),
            "lineno": metric_whole(line),
            "attempt": attempt_of(compile_id) if compile_id else None,
            "reason": line_of(metrics.get("recompile_reason")),
            "fail_type": shortened(metrics.get("fail_type")),
            "fail_reason": line_of(metrics.get("fail_reason")),
            "restarts": shortened("; ".join(restarts)) if restarts else None,
            "guards": metric_whole(metrics.get("guard_count")),
            "ops": metric_whole(metrics.get("graph_op_count")),
            "seconds": metric_seconds(metrics, "duration_us", "entire_frame_compile_time_s"),
            "backend_seconds": metric_seconds(
                metrics, "aot_autograd_cumulative_compile_time_us", "backend_compile_time_s"
            ),
            "inductor_seconds": metric_seconds(
                metrics, "inductor_cumulative_compile_time_us", "inductor_compile_time_s"
            ),
            "cache_hits": metric_total(
                metrics,
                "inductor_fx_local_cache_hit_count",
                "inductor_fx_remote_cache_hit_count",
                "aotautograd_local_cache_hit_count",
                "aotautograd_remote_cache_hit_count",
            ),
            "cache_misses": metric_total(
                metrics,
                "inductor_fx_local_cache_miss_count",
                "inductor_fx_remote_cache_miss_count",
                "aotautograd_local_cache_miss_count",
                "aotautograd_remote_cache_miss_count",
            ),
            "graph_breaks": metric_whole(metrics.get("num_graph_breaks")),
            "is_forward": metrics.get("is_forward") if isinstance(metrics.get("is_forward"), bool) else None,
        }
