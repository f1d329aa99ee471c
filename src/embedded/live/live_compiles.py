# python.compiles and python.graph_breaks, when somebody asks. Runs in the target, on a thread of the probe.
# Python 3.6 syntax, built-in modules only.
from ..torch.compiles import compilations, dynamo_utils, known_compilations, line_of, metric_whole


def compiles_table(wanted):
    return compilations(known_compilations())


def graph_breaks_table(wanted):
    counters = dynamo_utils().get("counters") or {}
    for kind in ("graph_break", "unimplemented"):
        # Not counters[kind]: that makes an entry.
        for reason, count in list((counters.get(kind) or {}).items()):
            yield {"kind": kind, "reason": line_of(reason), "count": metric_whole(count)}
