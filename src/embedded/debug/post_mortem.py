# The debugger on an exception that is over: its frames are read, nothing runs there any more. What Python
# calls the last exception (sys.last_value) is what is looked at: an interactive job sets it, and the hook
# `post_mortem` of the probe does for every unhandled one. Runs in the target. Python 3.6 syntax.
import sys

from ..console.session import PastFrame, process_id
from ..core.describe import Capture, Refused, describe
from ..core.own import is_own
from .debug_words import place_of


def last_error():
    """The exception and its traceback."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None:
        raise Refused(
            "no unhandled exception is kept in this process. python.exceptions has their texts; to have the "
            "next one kept with its variables: probing -t %d config "
            "probing.python.hooks=gc,exceptions,loggers,memory,post_mortem" % process_id()
        )
    return error, error.__traceback__ or getattr(sys, "last_traceback", None)


def begin_post_mortem(bug, owner):
    error, traceback = last_error()
    frame = None
    while traceback is not None:
        if not is_own(traceback.tb_frame.f_globals):
            frame = PastFrame(traceback, frame)
        traceback = traceback.tb_next
    if frame is None:
        raise Refused("the last exception, %s, has no frames" % type(error).__name__)
    bug.free_for(owner)
    bug.owner, bug.ident, bug.state = owner, None, "paused"
    bug.frame, bug.chosen, bug.mode = frame, 0, None
    text = Capture(4000)
    describe(error, text.write, set())
    bug.reason = "post mortem"
    return "@paused\n%s%s" % (text.text(), place_of(frame))
