# python.recompiles: what torch.compile compiled once more, or gave up, written down while the job runs. So
# it can be asked for when the interpreter is busy, and goes back further than what torch remembers. Runs in
# the target, on a thread of the probe. Python 3.6 syntax, built-in modules only.
from ..native import table
from .compiles import compilations, dynamo_utils, known_compilations

recompiles_seen = [None]  # the last one that was looked at


def new_compilations():
    """All that torch remembers since the last time; all of it when that is too long ago."""
    known = known_compilations()
    for at in range(len(known) - 1, -1, -1):
        if known[at] is recompiles_seen[0]:
            return known, at + 1
    return known, 0


def note_recompiles():
    """Cheap when nothing was compiled."""
    latest = dynamo_utils().get("_compilation_metrics")
    if not latest or latest[-1] is recompiles_seen[0]:
        return
    known, first = new_compilations()
    recompiles_seen[0] = known[-1]
    append = table("python.recompiles")
    names = ("func", "file", "lineno", "attempt", "reason", "fail_reason", "seconds", "compile_id")
    for at, row in enumerate(compilations(known)):
        is_again = row["attempt"] or row["fail_type"]
        is_backward = row["is_forward"] is False  # of a compilation that has a row of its own
        if at >= first and row["timestamp"] is not None and is_again and not is_backward:
            append(row["timestamp"], *[row[name] for name in names])
