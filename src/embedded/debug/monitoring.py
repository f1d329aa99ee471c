# Points from Python 3.12 on. Python 3.6 syntax, because every Python reads it.
import _thread
import sys

from ..core.describe import Refused
from ..native import gate_slot, make_line_gate, set_when_due
from .codes import first_statement
from .watch import MOST_POINTS, guarded, hit_point, monitoring, points


class Monitoring(object):
    """From 3.12 on: events of the very code objects that are watched."""

    def __init__(self):
        self.tool = None

    def add(self, number, point):
        self.begin()
        if point.kind == "log":
            del point.codes[1:]  # a lambda within the line is not meant
            line = point.line or first_statement(point.codes[0])
            gate_slot(number % MOST_POINTS, point.codes[0], line, int(1e9 / point.rate))
        self.refresh(point.codes)

    def remove(self, number, point):
        gate_slot(number % MOST_POINTS, None, 0, 0)
        points.pop(number, None)
        self.refresh(point.codes)
        if not points:
            self.end()

    def refresh(self, codes):
        """Exactly the events that the points of these code objects need."""
        events = monitoring.events
        for code in codes:
            wanted = 0
            for point in points.values():
                if code in point.codes:
                    wanted |= events.LINE if point.kind == "log" else events.PY_START | events.PY_RETURN
            monitoring.set_local_events(self.tool, code, wanted)
        if any(point.kind == "log" for point in points.values()):
            monitoring.restart_events()  # a line that nobody wanted before is switched off

    def begin(self):
        if self.tool is not None:
            return
        free = [tool for tool in (4, 3, 2) if monitoring.get_tool(tool) is None]
        if not free:
            raise Refused("all places of sys.monitoring are taken by other tools in this process")
        self.tool = free[0]
        events = monitoring.events
        monitoring.use_tool_id(self.tool, "probing")
        set_when_due(hit_point)
        monitoring.register_callback(self.tool, events.LINE, make_line_gate(monitoring.DISABLE))
        monitoring.register_callback(self.tool, events.PY_START, self.on_start)
        monitoring.register_callback(self.tool, events.PY_RETURN, self.on_return)

    def end(self):
        if self.tool is None:
            return
        events = monitoring.events
        monitoring.set_events(self.tool, 0)
        for event in (events.LINE, events.PY_START, events.PY_RETURN):
            monitoring.register_callback(self.tool, event, None)
        monitoring.free_tool_id(self.tool)
        set_when_due(None)
        self.tool = None

    def tracing(self):
        return any(point.calls for point in points.values() if point.kind == "trace")

    def on_start(self, code, offset):
        guarded(self.start, code, sys._getframe(1))

    def start(self, code, frame):
        for point in list(points.values()):
            tree = point.calls.get(_thread.get_ident())
            if tree is not None:
                tree.enter(code)
            if point.kind != "log" and code in point.codes:
                point.entered(frame)
        self.follow()

    def on_return(self, code, offset, value):
        guarded(self.finish, code, sys._getframe(1), value)

    def finish(self, code, frame, value):
        for point in list(points.values()):
            tree = point.calls.get(_thread.get_ident())
            if tree is not None and tree.frame is not frame:
                tree.leave()
            if point.kind != "log" and code in point.codes:
                point.left(frame, value)
        self.follow()

    def follow(self):
        """All calls are of interest while one is traced, and only then."""
        if self.tool is None:
            return
        events = monitoring.events
        wanted = events.PY_START | events.PY_RETURN if self.tracing() else 0
        if monitoring.get_events(self.tool) != wanted:
            monitoring.set_events(self.tool, wanted)
