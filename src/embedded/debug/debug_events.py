# Where the debugger's events come from: lines that its thread executes, exceptions raised there. They
# arrive on the job's threads; nothing of ours is raised into them. Python 3.6 syntax.
import _thread
import sys

from ..console.session import stack_of
from ..core.describe import Refused
from ..core.own import is_own
from ..native import trace_thread
from .watch import monitoring


def is_of_the_job(debugger, error):
    """Whether what came out of a stop is to be raised in the job; an error of ours is not."""
    its_own, debugger.of_the_job = debugger.of_the_job, None
    return error is its_own or not isinstance(error, Exception)


class ByMonitoring(object):
    """From 3.12 on. Only code that matters has events, unless one steps into calls."""

    def __init__(self, debugger):
        self.debugger = debugger
        self.tool = None
        self.watched = {}

    def begin(self):
        if self.tool is not None:
            return
        free = [tool for tool in (0, 3, 4, 2) if monitoring.get_tool(tool) is None]
        if not free:
            raise Refused("all places of sys.monitoring are taken by other tools in this process")
        self.tool = free[0]
        monitoring.use_tool_id(self.tool, "probing debug")
        monitoring.register_callback(self.tool, monitoring.events.LINE, self.on_line)
        monitoring.register_callback(self.tool, monitoring.events.RAISE, self.on_raise)

    def follow(self):
        self.begin()
        events = monitoring.events
        debugger = self.debugger
        wanted = {}
        for point in debugger.breakpoints.values():
            for code in point.codes:
                wanted[id(code)] = code
        everywhere = events.RAISE if debugger.catch else 0
        if debugger.mode is not None:
            if debugger.mode[0] in ("pause", "step"):
                everywhere |= events.LINE
            for frame in stack_of(debugger.ident):
                if not is_own(frame.f_globals):
                    wanted[id(frame.f_code)] = frame.f_code
        for key, code in list(self.watched.items()):
            if key not in wanted:
                monitoring.set_local_events(self.tool, code, 0)
        for code in wanted.values():
            monitoring.set_local_events(self.tool, code, events.LINE)
        self.watched = wanted
        if monitoring.get_events(self.tool) != everywhere:
            monitoring.set_events(self.tool, everywhere)

    def settle(self):
        """After a stop: what was switched on to get there is switched off."""
        if self.tool is not None:
            self.follow()

    def on_line(self, code, line):
        debugger = self.debugger
        if _thread.get_ident() != debugger.ident:
            return
        try:
            had_mode = debugger.mode
            debugger.line_reached(sys._getframe(1))
            if had_mode is not None and debugger.mode is None and debugger.state == "running":
                self.settle()
        except BaseException as error:
            if is_of_the_job(debugger, error):
                raise

    def on_raise(self, code, offset, error):
        if _thread.get_ident() == self.debugger.ident:
            try:
                self.debugger.exception_raised(sys._getframe(1), error)
            except BaseException as another:
                if is_of_the_job(self.debugger, another):
                    raise

    def stop(self):
        if self.tool is None:
            return
        tool, self.tool = self.tool, None
        monitoring.set_events(tool, 0)
        for code in self.watched.values():
            monitoring.set_local_events(tool, code, 0)
        self.watched = {}
        for event in (monitoring.events.LINE, monitoring.events.RAISE):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)


class ByTracing(object):
    """Before 3.12: a trace function on the one thread."""

    def __init__(self, debugger):
        self.debugger = debugger
        self.on = False

    def follow(self):
        self.on = True
        frames = stack_of(self.debugger.ident)
        outside = [frame for frame in frames if not is_own(frame.f_globals)]
        if len(outside) == len(frames) and frames and not trace_thread(frames[0], self.on_call):
            raise Refused("this Python does not let one thread trace another")
        for frame in outside:
            frame.f_trace = self.on_event

    def on_call(self, frame, event, argument):
        if not self.on:
            sys.settrace(None)
            return None
        debugger = self.debugger
        if is_own(frame.f_globals):
            return None
        inside = debugger.catch or (debugger.mode is not None and debugger.mode[0] in ("pause", "step"))
        for point in debugger.breakpoints.values():
            inside = inside or any(code is frame.f_code for code in point.codes)
        return self.on_event if inside else None

    def on_event(self, frame, event, argument):
        if not self.on:
            sys.settrace(None)
            frame.f_trace = None
            return None
        try:
            if event == "line":
                self.debugger.line_reached(frame)
            elif event == "exception":
                self.debugger.exception_raised(frame, argument[1])
        except BaseException as error:
            if is_of_the_job(self.debugger, error):
                raise
        return self.on_event

    def stop(self):
        self.on = False
        ident = self.debugger.ident
        frames = stack_of(ident) if ident is not None else []
        if ident == _thread.get_ident():
            sys.settrace(None)
        elif frames and not is_own(frames[0].f_globals):
            trace_thread(frames[0], None)
        for frame in frames:
            if frame.f_trace == self.on_event:
                frame.f_trace = None
