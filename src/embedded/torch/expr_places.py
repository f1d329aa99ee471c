# exprs= before Python 3.12, where there is no sys.monitoring. Functions get code with a call of ours in it
# (recompile.py), so that values are taken when the line is reached, or when the function returns. Of a call
# that is under way, which keeps its code, they are taken from the stack when a step ends. Nothing is traced.
# Runs in the target. Python 3.6 syntax, built-in modules only.
import sys
import time

from ..core.heap import living_of
from ..core.own import lasting
from ..core.recompile import FUNCTION, Recompiled, own_lines
from ..native import torch_says, torch_step
from .exprs import is_in_file

FIRST_LOOK_S = 0.5  # the next one comes after twice that time, and so on
MOST_LOOKS = 12


class Place(object):
    """A function or a line, and what the code calls that it is in."""

    def __init__(self, exprs, number, function, file, line):
        self.exprs, self.number, self.alive = exprs, number, True
        self.kind = "watch" if function else "log"
        self.function, self.file, self.line = function, file, line

    def text(self):
        return self.function or "%s:%d" % (self.file, self.line)

    def is_in(self, code):
        if self.function:
            return code.co_name == self.function
        return is_in_file(code, self.file) and self.line in own_lines(code)

    def start(self):
        pass

    def hit(self):
        if self.alive:
            try:
                wanted = self.exprs.lines[self.file, self.line]
                self.exprs.note(sys._getframe(1), torch_step(), wanted)
            except Exception:
                pass

    def leave(self, value):
        if self.alive:
            try:
                self.exprs.note_return(sys._getframe(1), torch_step())
            except Exception:
                pass
        return value


lasting.append(Place)  # of calls that are under way when we go


class Places(object):
    """Where values are taken; the code of functions that have been found."""

    def __init__(self, exprs):
        self.exprs = exprs
        self.places = [Place(exprs, i, name, None, 0) for i, name in enumerate(exprs.functions)]
        first = len(self.places)
        self.places += [Place(exprs, first + i, None, *place) for i, place in enumerate(exprs.lines)]
        self.missing = list(self.places)
        self.recompiled = Recompiled()
        self.codes = {}  # id → (code, places in it), with calls
        self.under_way = {}  # id → (code, expressions at its lines), seen on the stack
        self.looks, self.next_look = 0, 0.0

    def on_frame(self, frame, step):
        """A frame that is on the stack when a step ends."""
        code = frame.f_code
        known = self.under_way.get(id(code))
        if known is None:
            known = self.under_way[id(code)] = code, self.lines_in(code)
        if known[1]:
            self.exprs.note(frame, step, known[1])

    def lines_in(self, code):
        if self.recompiled.original_of(code) is not code:
            return []  # it calls us by itself
        found = [place for place in self.places if place.line and place.is_in(code)]
        for place in found:
            if place in self.missing and code.co_name == "<module>":
                self.missing.remove(place)  # never called again
        return [each for place in found for each in self.exprs.lines[place.file, place.line]]

    def look(self):
        """On the probe's thread. Returns whether to come again. Before the first step nobody knows which
        functions will be on the stack when it ends, and need nothing of this."""
        now = time.time()
        if not self.missing or not self.exprs.steps or now < self.next_look:
            return bool(self.missing)
        self.next_look = now + FIRST_LOOK_S * 2**self.looks
        self.looks += 1
        self.missing = [place for place in self.missing if place.function not in self.exprs.noted]
        codes = {id(each.__code__): each.__code__ for each in living_of(FUNCTION)} if self.missing else {}
        for place in list(self.missing):
            for code in codes.values():
                if place.is_in(code):
                    self.add(code, place)
        if self.missing and self.looks == MOST_LOOKS:
            torch_says("exprs: there is no %s" % ", no ".join(place.text() for place in self.missing))
            del self.missing[:]
        return bool(self.missing)

    def add(self, code, place):
        if place in self.missing:
            self.missing.remove(place)
        code = self.recompiled.original_of(code)
        _, places = self.codes.setdefault(id(code), (code, []))
        if place in places:
            return
        try:
            self.refresh(code, places + [place])
            places.append(place)
        except Exception as error:  # the file is not there, or has changed
            torch_says("exprs: %s: %s" % (place.text(), error))

    def refresh(self, code, places):
        self.recompiled.refresh(code, [(each.number, each.kind, each.line, each) for each in places])

    def stop(self):
        for place in self.places:
            place.alive = False  # for calls that are under way
            place.exprs = None
        for code, _ in self.codes.values():
            self.refresh(code, [])
        self.exprs = None  # which refers to us: nobody collects in a process that has switched that off
