# Points before Python 3.12: the function that is watched gets code in which a call of ours stands at the
# line (recompile.py). Calls that are under way run their old code: their thread is traced until they return.
# Python 3.6 syntax, built-in modules only.
import _thread
import sys

from ..console.session import stack_of
from ..core.describe import Refused
from ..core.own import is_own
from ..core.recompile import Recompiled
from ..native import gate_slot, make_hit_gate, set_when_due, trace_thread
from .watch import MOST_POINTS, guarded, hit_point, inside, points


class Hook(object):
    """What the rewritten code calls."""

    def __init__(self, number, point):
        self.point = point
        self.alive = True
        self.hit = make_hit_gate(number % MOST_POINTS)  # a hot path: mostly it is not due yet

    def start(self):
        if self.alive:
            guarded(self.begin, sys._getframe(1))

    def begin(self, frame):
        if self.point.kind != "trace" and not self.point.due():
            return
        self.point.entered(frame)
        tree = self.point.calls.get(_thread.get_ident())
        if tree is not None and tree.frame is frame and sys.getprofile() is None:
            sys.setprofile(Profile(tree))

    def leave(self, value):
        if self.alive:
            guarded(self.finish, sys._getframe(1), value)
        return value

    def finish(self, frame, value):
        tree = self.point.calls.get(_thread.get_ident())
        if tree is not None and tree.frame is frame and isinstance(sys.getprofile(), Profile):
            sys.setprofile(None)
        self.point.left(frame, value)


def nothing():
    """In place of a hit, in calls that run on after the point was removed."""


class Profile(object):
    def __init__(self, tree):
        self.tree = tree

    def __call__(self, frame, event, argument):
        if is_own(frame.f_globals) or frame is self.tree.frame or _thread.get_ident() in inside:
            return
        if event == "call":
            self.tree.enter(frame.f_code)
        elif event == "return":
            self.tree.leave()


class Rewriting(object):
    def __init__(self):
        self.functions = Recompiled()
        self.hooks = {}  # number of a point → Hook
        self.traced = {}  # frames that are under way: id → (frame, old f_trace, points)

    def refresh(self, code):
        """Gives all functions with this code the calls that its points need."""
        wanted = [
            (n, p.kind, p.line, self.hooks[n])
            for n, p in points.items()
            if any(each is code for each in p.codes)
        ]
        return self.functions.refresh(code, wanted)

    def add(self, number, point):
        point.codes[:] = [self.functions.original_of(code) for code in point.codes]
        set_when_due(hit_point)
        gate_slot(number % MOST_POINTS, point.codes[0], 0, int(1e9 / point.rate))
        self.hooks[number] = Hook(number, point)
        del point.codes[1:]
        try:
            changed = self.refresh(point.codes[0])
        except BaseException:
            self.close(number)
            raise
        running = self.trace_running(point) if point.kind == "log" else 0
        if running:
            return "it runs now: until that call returns its thread is traced, which costs every call there"
        if not changed:
            raise Refused(
                "%s() is not reachable as a function; it can be watched from Python 3.12 on" % point.place
            )
        return ""

    def trace_running(self, point):
        count = 0
        for ident in list(sys._current_frames()):
            if ident == _thread.get_ident():
                continue
            frames = stack_of(ident)
            mine = [frame for frame in frames if frame.f_code is point.codes[0]]
            if mine and trace_thread(frames[0], Running.call):
                for frame in mine:
                    frame.f_trace = Running(point)
                    count += 1
        return count

    def close(self, number):
        hook = self.hooks.pop(number, None)
        if hook is not None:
            hook.alive = False
            hook.hit = nothing
        gate_slot(number % MOST_POINTS, None, 0, 0)

    def remove(self, number, point):
        self.close(number)
        points.pop(number, None)
        point.line = -1  # what is traced stops by itself
        for code in point.codes:
            self.refresh(code)
        for ident in list(sys._current_frames()):
            for frame in stack_of(ident):
                if isinstance(frame.f_trace, Running) and frame.f_trace.point is point:
                    frame.f_trace = None
                    trace_thread(stack_of(ident)[0], None)

    def end(self):
        for number, point in list(points.items()):
            self.remove(number, point)
        set_when_due(None)


class Running(object):
    """The trace function of a call that was under way."""

    def __init__(self, point):
        self.point = point

    @staticmethod
    def call(frame, event, argument):
        return None

    def __call__(self, frame, event, argument):
        if event == "line" and frame.f_lineno == self.point.line and self.point.due():
            guarded(self.point.hit, frame)
        if event == "return" or self.point.line == -1:
            sys.settrace(None)
            return None
        return self
