# Points that record and do not stop: `probing debug log`, `watch` and `trace`, into python.logpoints.
# What is hit runs on the job's own threads, so nothing here raises, and nothing costs what is not watched:
# sys.monitoring from 3.12 on, functions with rewritten code before (rewrite.py). Python 3.6 syntax.
import _thread
import sys

from ..console.evaluate import FILE_NAME
from ..console.magics import short
from ..console.session import leaving
from ..console.show import show
from ..core.describe import Refused
from ..native import table, tid
from .codes import need_gil, parse_place, qualified

MOST_POINTS = 64
MOST_RECORDED = 2000  # characters of a value
MOST_TREE_LINES = 200
NO_RATE = 1000.0  # hits a second that are recorded when nobody says otherwise
monitoring = getattr(sys, "monitoring", None)

points = {}
write_row = None  # into python.logpoints; of native code
numbers = [0]
inside = set()  # threads that evaluate a point: what they run through meanwhile is not recorded


def clock():
    time = sys.modules.get("time") or __import__("time")
    return time.perf_counter()


class Point(object):
    def __init__(self, kind, place, options):
        self.kind = kind
        self.place = place
        self.codes, self.line = parse_place(place)
        texts = [text.strip() for text in split_expressions(options.get("expressions", ""))]
        self.expressions = [(text, compile(text, FILE_NAME, "eval")) for text in texts if text]
        condition = options.get("if", "")
        self.condition = compile(condition, FILE_NAME, "eval") if condition else None
        self.condition_text = condition
        self.most = int(options.get("max") or 0)
        self.rate = float(options.get("rate") or NO_RATE)
        self.parts = set(options.get("parts", "").split(",")) - {""}
        self.next_at = 0.0
        self.rows = 0
        self.error = ""
        self.calls = {}  # ident → Tree, of trace

    def text(self):
        what = ", ".join(text for text, _ in self.expressions) or ",".join(sorted(self.parts))
        limits = " if %s" % self.condition_text if self.condition_text else ""
        return "%-6s %s %s%s  rows %d%s" % (
            self.kind,
            self.place,
            what,
            limits,
            self.rows,
            "  (%s)" % self.error if self.error else "",
        )

    def due(self):
        """At most so many a second."""
        now = clock()
        if now < self.next_at:
            return False
        self.next_at = now + 1.0 / self.rate
        return True

    def wanted(self, frame):
        if self.most and self.rows >= self.most:
            return False
        if self.condition is None:
            return True
        try:
            return bool(eval(self.condition, frame.f_globals, dict(frame.f_locals)))
        except Exception as error:
            self.error = "condition: %s: %s" % (type(error).__name__, error)
            return False

    def write(self, frame, expression, value):
        code = frame.f_code
        text = value if len(value) <= MOST_RECORDED else value[:MOST_RECORDED] + "…"
        write_row(None, tid(), code.co_filename, frame.f_lineno, qualified(code), expression, text)
        self.rows += 1

    def hit(self, frame):
        """The line is about to run."""
        if self.wanted(frame):
            names = dict(frame.f_locals)
            for text, code in self.expressions:
                try:
                    value = show(eval(code, frame.f_globals, names), MOST_RECORDED)
                except Exception as error:
                    value = "%s: %s" % (type(error).__name__, error)
                self.write(frame, text, value)
        self.finish_if_done()

    def entered(self, frame):
        if self.kind == "trace":
            if _thread.get_ident() not in self.calls and self.wanted(frame) and self.due():
                self.calls[_thread.get_ident()] = Tree(frame)
        elif "args" in self.parts and self.wanted(frame):
            code = frame.f_code
            count = code.co_argcount + code.co_kwonlyargcount
            values = frame.f_locals
            names = [name for name in code.co_varnames[:count] if name in values]
            self.write(frame, "args", ", ".join("%s=%s" % (name, short(values[name])) for name in names))

    def left(self, frame, value):
        if self.kind == "trace":
            tree = self.calls.get(_thread.get_ident())
            if tree is not None and tree.frame is frame:
                del self.calls[_thread.get_ident()]
                self.write(frame, "trace", tree.text())
        elif self.wanted(frame):
            if "return" in self.parts:
                self.write(frame, "return", short(value))
            for text, code in self.expressions:
                try:
                    found = show(eval(code, frame.f_globals, dict(frame.f_locals)), MOST_RECORDED)
                except Exception as error:
                    found = "%s: %s" % (type(error).__name__, error)
                self.write(frame, text, found)
        self.finish_if_done()

    def finish_if_done(self):
        if self.most and self.rows >= self.most:
            for number, point in list(points.items()):
                if point is self:
                    backend().remove(number, point)


class Tree(object):
    """One call and what it called, with times."""

    def __init__(self, frame):
        self.frame = frame
        self.begun = clock()
        self.stack = []
        self.lines = []
        self.calls = 0

    def enter(self, code):
        self.calls += 1
        place = len(self.lines)
        if place < MOST_TREE_LINES:
            self.lines.append(None)
        self.stack.append((place, code, clock()))

    def leave(self):
        if self.stack:
            place, code, begun = self.stack.pop()
            if place < MOST_TREE_LINES:
                spent = (clock() - begun) * 1000
                self.lines[place] = "%s%s %.3f ms" % ("  " * (len(self.stack) + 1), qualified(code), spent)

    def text(self):
        head = "%s %.3f ms" % (qualified(self.frame.f_code), (clock() - self.begun) * 1000)
        lines = [head] + [line for line in self.lines if line]
        if self.calls > len(self.lines):
            lines.append("  … %d calls in all" % self.calls)
        return "\n".join(lines)


def guarded(function, *arguments):
    """On a thread of the job: whatever happens stays here."""
    ident = _thread.get_ident()
    if ident in inside:
        return
    inside.add(ident)
    try:
        function(*arguments)
    except Exception:
        pass
    finally:
        inside.discard(ident)


def hit_point(slot):
    """Called by a gate (talk_functions.h) that stands in the frame of the job."""
    for number, point in list(points.items()):
        if number % MOST_POINTS == slot:
            guarded(point.hit, sys._getframe(1))


def split_expressions(text):
    """At commas outside of brackets and quotes."""
    parts, depth, quote, current = [], 0, "", ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        if letter == "," and not depth and not quote:
            parts.append(current)
            current = ""
        else:
            current += letter
    return parts + [current]


backends = []


def backend():
    from .monitoring import Monitoring
    from .rewrite import Rewriting

    if not backends:
        backends.append(Monitoring() if monitoring is not None else Rewriting())
    return backends[0]


def talk_log(source, options):
    """`add`, `list` or `remove`; what is to be added is in the arguments, as key=value lines."""
    global write_row
    arguments = dict(line.partition("=")[::2] for line in options.get("arguments", "").split("\n"))
    if source == "add":
        need_gil()
        if len(points) >= MOST_POINTS:
            raise Refused("%d points are the most; remove some first" % MOST_POINTS)
        write_row = write_row or table("python.logpoints")
        point = Point(arguments["kind"], arguments["place"], arguments)
        numbers[0] += 1
        while numbers[0] % MOST_POINTS in [number % MOST_POINTS for number in points]:
            numbers[0] += 1
        points[numbers[0]] = point
        try:
            note = backend().add(numbers[0], point)
        except BaseException:
            points.pop(numbers[0], None)
            raise
        return "%d  %s%s" % (numbers[0], point.text(), "\n" + note if note else "")
    if source == "remove":
        wanted = arguments.get("number", "")
        chosen = [number for number in sorted(points) if wanted in ("all", str(number))]
        if not chosen and wanted != "all":
            raise Refused("there is no point %s; `probing debug points` lists them" % wanted)
        for number in chosen:
            point = points[number]
            backend().remove(number, point)
            points.pop(number, None)
        return "removed: %s" % (", ".join(map(str, chosen)) or "none")
    return "\n".join("%d  %s" % (number, points[number].text()) for number in sorted(points)) or "no points"


def remove_points():
    for number, point in sorted(points.items()):
        backend().remove(number, point)
    points.clear()
    for each in backends:
        each.end()
    del backends[:]


leaving.append(remove_points)
