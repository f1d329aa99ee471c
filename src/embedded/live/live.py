# Tables that are made when somebody asks for them. Runs in the target, on a thread of the probe.
# Python 3.6 syntax; built-in modules only. Looks into dicts instead of asking attributes, because
# modules may have a __getattr__ that imports half a framework.
import _thread
import sys

from ..core.heap import DEFAULT_SECONDS, Pace, paces
from .live_collectives import flight_recorder_table
from .live_compiles import compiles_table, graph_breaks_table
from .live_leaks import leaks_table
from .live_torch import modules_table, tensors_table


def imports(wanted):
    for name, module in sorted(sys.modules.copy().items(), key=lambda item: str(item[0])):
        try:
            known = object.__getattribute__(module, "__dict__")
        except AttributeError:
            known = {}
        texts = [known.get(key) for key in ("__version__", "__file__", "__package__")]
        version, file, package = [text if isinstance(text, str) else None for text in texts]
        yield {
            "name": str(name),
            "version": version,
            "file": file,
            "package": package,
            "builtin": name in sys.builtin_module_names,
        }


def threads(wanted):
    threading = sys.modules.get("threading")
    known = dict(getattr(threading, "_active", {}))
    main = getattr(threading, "_main_thread", None)
    idents = set(sys._current_frames()) | set(known)
    idents.discard(_thread.get_ident())
    for ident in sorted(idents):
        thread = known.get(ident)
        yield {
            "tid": getattr(thread, "_native_id", None),
            "ident": ident,
            "name": getattr(thread, "_name", None),
            "daemon": getattr(thread, "_daemonic", None),
            "alive": True,
            "main": thread is main if thread is not None else None,
        }


TABLES = {
    "python.imports": imports,
    "python.threads": threads,
    "python.modules": modules_table,
    "python.tensors": tensors_table,
    "python.leaks": leaks_table,
    "python.flight_recorder": flight_recorder_table,
    "python.compiles": compiles_table,
    "python.graph_breaks": graph_breaks_table,
}

PART_OF_THE_TIME = 0.8  # of what the probe waits for: an incomplete answer comes, and not none


def live_rows(table, columns, timeout_ms):
    """(a list of rows, each a list with the values of these columns (separated by commas); why they are not
    all, or None); a text when that fails."""
    wanted = columns.split(",") if columns else []
    seconds = timeout_ms * PART_OF_THE_TIME / 1000 if timeout_ms else DEFAULT_SECONDS
    rows, pace = [], Pace(seconds)
    paces[:] = [pace]
    try:
        for row in TABLES[table](wanted):
            rows.append([row[column] for column in wanted])
            del row
            if not pace.breathe():
                break
        return rows, None if pace.partial is None else "not all rows: " + pace.partial
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)
