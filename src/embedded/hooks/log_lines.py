# probing.stalls.log: lines of the job's log (module logging) that match are events of python.spans, of which
# probingd makes rows of python.stalls. Nothing is wrapped without the setting. Runs in the target. Python 3.6
# syntax, built-in modules only; logging and re are looked at, never imported.
import sys

from ..core.wraps import live, put_back, replace
from ..native import table, tid

MOST_LINE = 500  # characters of a line that are looked at, whatever the pattern makes of them
log_pattern = [None]


def make_line_event():
    """Uses no global of ours: a thread of the job may be in it when we leave."""
    append, thread_id = table("python.spans"), tid

    def event(text, origin):
        about = "".join(each if each.isalnum() or each in "._- " else "_" for each in origin[:100])
        append(
            None, thread_id(), None, None, text, "event", None, None, '{"capture": true, "log": "%s"}' % about
        )

    return event


def make_line_note(search, event, most):
    def note(before, logger, record, *rest):
        text = record.getMessage()[:most]
        if search(text):
            event(text, "%s of %s" % (record.levelname, record.name))

    return note


def find_log():
    """After something was imported, or the setting has changed."""
    logging, expressions = sys.modules.get("logging"), sys.modules.get("re")
    logger = vars(logging).get("Logger") if logging is not None else None
    if log_pattern[0] is None or "log_line" in live or expressions is None or not isinstance(logger, type):
        return
    event = make_line_event()
    try:
        search = expressions.compile(log_pattern[0]).search
    except Exception as error:
        event("probing.stalls.log is no regular expression: %s" % error, "probing")
        log_pattern[0] = None
        return
    live["log_line"] = make_line_note(search, event, MOST_LINE)
    replace("log", logger, "callHandlers", after="log_line")


def configure_log(pattern):
    """The text of the setting; "" for none."""
    wanted = pattern or None
    if wanted == log_pattern[0]:
        return
    live.pop("log_line", None)
    put_back("log")
    log_pattern[0] = wanted
    find_log()
