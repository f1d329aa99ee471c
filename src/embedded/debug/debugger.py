# Holds one thread of the job at a line, for as long as a debugger is there to look at it; all others run.
# What stops runs on the job's thread and only waits; what is looked at is looked at from the probe's
# thread. sys.monitoring from 3.12 on, a trace function on that one thread before. Python 3.6 syntax.
import _thread
import sys

from ..console.evaluate import FILE_NAME
from ..console.session import leaving
from ..core.describe import Refused
from ..core.own import is_own
from ..native import lease_age_ms, note_stop
from .codes import first_statement, parse_place
from .debug_events import ByMonitoring, ByTracing
from .watch import clock, monitoring

LEASE_MS = 5000  # without a word from the debugger for so long, it is gone
WAIT_SECONDS = 0.2


OWN_CODE_SECONDS = 1.0  # a pause waits so long for a line of the user's own code
LIBRARIES = ("/lib/python3", "/lib64/python3", "/site-packages/", "/dist-packages/")


def is_users(code):
    """The user's own code, as opposed to the standard library and installed packages."""
    name = code.co_filename
    return not name.startswith("<frozen") and not any(part in name for part in LIBRARIES)


class Breakpoint(object):
    def __init__(self, number, place, condition, temporary):
        self.number = number
        self.place = place
        self.codes, line = parse_place(place)
        self.line = line or first_statement(self.codes[0])
        self.condition = condition
        self.compiled = compile(condition, FILE_NAME, "eval") if condition else None
        self.temporary = temporary
        self.hits = 0

    def text(self):
        return "%d  %s%s%s  hits %d" % (
            self.number,
            self.place,
            " if " + self.condition if self.condition else "",
            " (temporary)" if self.temporary else "",
            self.hits,
        )


class Debugger(object):
    def __init__(self):
        self.owner = None
        self.state = "off"  # running, paused
        self.ident = None
        self.frame = None  # where it is paused
        self.chosen = 0  # of its frames
        self.reason = ""
        self.breakpoints = {}
        self.last_number = 0
        self.catch = ""  # the name of a class of exceptions
        self.error = None  # the exception it stopped at
        self.mode = None  # (word, frame, line) of what is under way
        self.go_on = _thread.allocate_lock()
        self.go_on.acquire()
        self.max_pause = 600.0
        self.commands = 0  # under way
        self.resumed = 0  # how often
        self.of_the_job = None  # an exception on its way through the events
        self.full = False  # whether to stop in code of libraries, too
        self.in_library = False  # it goes on from a stop in a library: then it may stop there again
        self.since = 0.0  # when it was asked to pause
        self.displayed = []  # expressions
        self.typed = {}  # names of `interact`
        self.backend = ByMonitoring(self) if monitoring is not None else ByTracing(self)

    # ── on the job's thread ──

    def line_reached(self, frame):
        if self.state != "running" or is_own(frame.f_globals):
            return
        reason = self.reason_to_stop(frame)
        if reason:
            self.pause(frame, reason)

    def reason_to_stop(self, frame):
        for point in list(self.breakpoints.values()):
            if frame.f_lineno != point.line or not any(code is frame.f_code for code in point.codes):
                continue
            try:
                wanted = point.compiled is None or eval(point.compiled, frame.f_globals, dict(frame.f_locals))
            except Exception as error:
                wanted = True
                self.reason = "condition of breakpoint %d: %s" % (point.number, error)
            if wanted:
                point.hits += 1
                if point.temporary:
                    self.breakpoints.pop(point.number, None)
                return "breakpoint %d" % point.number
        if self.mode is None:
            return ""
        word, at, line = self.mode
        if not self.full and not self.in_library and self.is_beside(frame, word):
            return ""
        if word in ("pause", "step"):
            return word
        if word == "next" and (frame is at or not self.under_way(at)):
            return word
        if word == "until" and frame is at and frame.f_lineno >= line:
            return word
        if word == "until" and not self.under_way(at):
            return word
        if word == "return" and not self.under_way(at):
            return word
        return ""

    def is_beside(self, frame, word):
        """In code of a library, and code of the user's own is below it, where the stop belongs."""
        if is_users(frame.f_code) or word == "pause" and clock() - self.since > OWN_CODE_SECONDS:
            return False
        while frame is not None:
            if is_users(frame.f_code):
                return True
            frame = frame.f_back
        return False

    def under_way(self, frame):
        current = sys._getframe()
        while current is not None:
            if current is frame:
                return True
            current = current.f_back
        return False

    def exception_raised(self, frame, error):
        if self.state != "running" or not self.catch or is_own(frame.f_globals):
            return
        if isinstance(error, (StopIteration, StopAsyncIteration, GeneratorExit)) or error is self.error:
            return
        if self.catch not in [kind.__name__ for kind in type(error).__mro__]:
            return
        self.error = error
        self.pause(frame, "%s: %s" % (type(error).__name__, error))

    def pause(self, frame, reason):
        age = lease_age_ms  # the probe may leave meanwhile, and takes its functions along
        self.go_on.acquire(False)
        self.frame, self.chosen, self.reason, self.mode = frame, 0, reason, None
        self.state = "paused"
        begun = clock()
        note_stop()
        try:
            while self.state == "paused" and not self.go_on.acquire(True, WAIT_SECONDS):
                gone = age() > LEASE_MS and not self.commands
                late = self.max_pause and clock() - begun > self.max_pause
                if gone or late:
                    self.detach()
                    break
        except BaseException as error:  # raised by a signal handler of the job, where its thread stands
            self.detach()
            self.of_the_job = error
            raise
        finally:
            self.frame = None

    # ── on the probe's thread ──

    def free_for(self, owner):
        """Whoever was here before is gone, or this is refused."""
        if self.state != "off" and self.owner != owner and lease_age_ms() < LEASE_MS:
            raise Refused("another debugger is at work in this process; there is room for one")
        if self.state != "off":
            self.detach()

    def attach(self, owner, ident, max_pause, full=False):
        self.free_for(owner)
        self.owner, self.ident, self.max_pause, self.full = owner, ident, max_pause, full
        self.displayed, self.typed = [], {}
        self.state = "running"
        self.error = None
        self.interrupt()

    def interrupt(self):
        """Stops at the next line that the thread executes."""
        if self.ident is not None and self.state == "running":
            self.mode, self.since, self.in_library = ("pause", None, 0), clock(), False
            self.backend.follow()

    def resume(self, mode):
        if self.ident is None:
            raise Refused("that is over: nothing can go on there; `detach` leaves")
        self.mode = mode
        self.in_library = self.frame is not None and not is_users(self.frame.f_code)
        self.resumed += 1
        self.state = "running"
        self.backend.follow()
        self.go_on.release()

    def detach(self):
        """The thread goes on and nothing of ours is left in it. From any thread."""
        paused = self.state == "paused"
        self.state, self.owner, self.mode, self.catch, self.error = "off", None, None, "", None
        self.breakpoints.clear()
        if self.ident is None:
            self.frame = None  # of an exception that was over
            return
        self.backend.stop()
        if paused and _thread.get_ident() != self.ident:
            self.go_on.release()

    def add_breakpoint(self, place, condition, temporary):
        if self.ident is None:
            raise Refused("that is over: nothing stops there any more")
        self.last_number += 1
        point = Breakpoint(self.last_number, place, condition, temporary)
        self.breakpoints[point.number] = point
        self.backend.follow()
        return point

    def frames(self):
        """Of the paused thread, innermost first."""
        frames, frame = [], self.frame
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        return frames

    def chosen_frame(self):
        frames = self.frames()
        if self.state != "paused" or not frames:
            raise Refused("the thread runs; `pause` stops it")
        self.chosen = min(self.chosen, len(frames) - 1)
        return frames[self.chosen]


debuggers = []


def debugger():
    if not debuggers:
        debuggers.append(Debugger())
    return debuggers[0]


def remove_debugger():
    for each in debuggers:
        each.detach()
    del debuggers[:]


leaving.append(remove_debugger)
