# Values of the job's variables: exprs=loss@train,state.loss@train.py:42. Runs in the target. Python 3.6
# syntax, built-in modules only.
#
# Functions that are under way when a step ends are found on the stack, which needs no tracing at all.
# Others are noted when they return, and lines when they are reached, by sys.monitoring (3.12 on) or by calls
# in their code (expr_places.py): both cost something only in code that was asked for.
import sys
import time

from ..native import table, torch_says, torch_step

MOST_WATCHED_FRAMES = 200
MOST_VALUE = 1000  # characters
MOST_VALUES = 500  # of python.variables in a second
VALUES_SHARE = 0.005  # of the time, for values at the ends of steps; of very short ones not each has some
MOST_TOOK = 0.0002  # seconds: what took longer was put aside by the system
OPTIMIZED = 1  # of co_flags: a function, whose f_locals is a copy
PLAIN = (int, float, bool, str, type(None))

TOOLS = (4, 3)  # of sys.monitoring; the others have owners by custom

MOST_DTYPES = 100

expr_state = {}
dtype_names = {}  # id → (dtype, its name)


def value_cells(value):
    """(text, number, kind, shape, dtype) without asking the value for more than it has at hand. All of this
    is out of the caches when a step ends: what is looked up costs more than what is computed."""
    kind = type(value).__name__
    if isinstance(value, PLAIN):
        number = float(value) if isinstance(value, (int, float)) and abs(value) < 1e308 else None
        if isinstance(value, float) and number is None:
            number = value  # inf and nan
        text = value[:MOST_VALUE] if isinstance(value, str) else repr(value)[:MOST_VALUE]
        return text, number, kind, None, None
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and dtype is not None:
        sizes = "[]" if not shape else repr(list(shape))
        number = None
        # One number that is in the memory of the CPU: a GPU would have to be waited for.
        if shape.count(1) == len(shape) and is_on_cpu(value):
            number = float(value.item())
        text = repr(number) if number is not None else kind + sizes
        return text, number, kind, sizes, name_of_dtype(dtype)
    if isinstance(value, (list, tuple, dict, set)):
        return "%s of %d" % (kind, len(value)), None, kind, None, None
    return kind, None, kind, None, None


def name_of_dtype(dtype):
    known = dtype_names.get(id(dtype))
    if known is not None:
        return known[1]
    name = str(dtype).replace("torch.", "")
    if len(dtype_names) < MOST_DTYPES:
        dtype_names[id(dtype)] = dtype, name
    return name


def is_on_cpu(value):
    told = getattr(value, "is_cpu", None)  # torch's; others may have a device
    return told if told is not None else getattr(getattr(value, "device", None), "type", "cpu") == "cpu"


def evaluate_name(names, local, everywhere):
    value = local[names[0]] if names[0] in local else everywhere[names[0]]
    for name in names[1:]:
        value = getattr(value, name)
    return value


class Exprs(object):
    def __init__(self, texts):
        self.variables, self.metrics = table("python.variables"), table("python.metrics")
        self.functions = {}  # name of a function → [(text, names)]
        self.lines = {}  # (file, line) → the same
        for text in texts:
            expression, _, place = text.partition("@")
            file, colon, line = place.rpartition(":")
            known = self.lines if colon else self.functions
            key = (file, int(line)) if colon else place.rpartition(".")[2]
            known.setdefault(key, []).append((expression, expression.split(".")))
        self.places = None  # before 3.12
        self.steps = 0  # that have ended
        self.next_at = 0.0  # by perf_counter()
        self.noted = {}  # function → the step in which it was noted last, not by a line of it
        self.rows = 0
        self.second, self.written = 0, 0
        self.failed = set()  # expressions that were said to fail

    def may_write(self, count):
        second = int(time.time())
        if second != self.second:
            self.second, self.written = second, 0
        self.written += count
        return self.written <= MOST_VALUES

    def on_step(self, step):
        self.steps += 1
        began = time.perf_counter()
        if began >= self.next_at:
            self.note_stack(sys._getframe(1), step)
            self.next_at = began + min(time.perf_counter() - began, MOST_TOOK) / VALUES_SHARE

    def note_stack(self, frame, step):
        places = self.places if self.lines else None
        for _ in range(MOST_WATCHED_FRAMES):
            if frame is None:
                return
            if places is not None:
                places.on_frame(frame, step)
            name = frame.f_code.co_name
            if name in self.functions:
                self.noted[name] = step
                self.note(frame, step, self.functions[name])
            frame = frame.f_back

    def note(self, frame, step, wanted):
        if not self.may_write(len(wanted)):
            return
        function = frame.f_code.co_name
        local = frame.f_locals
        try:
            self.rows += 1
            epoch = local.get("epoch")
            epoch = epoch if isinstance(epoch, int) else None
            for text, names in wanted:
                self.note_one(text, names, function, step, epoch, local, frame.f_globals)
        finally:
            # Before 3.13 this is a copy that the frame keeps, and with it the variables' old values:
            # tensors. Nobody else has it, unless the job has called locals() itself.
            if frame.f_code.co_flags & OPTIMIZED and type(local) is dict and sys.getrefcount(local) == 3:
                local.clear()

    def note_return(self, frame, step):
        """Unless it was on the stack at the end of this step, or has returned in it before."""
        name = frame.f_code.co_name
        if self.noted.get(name) != step:
            self.noted[name] = step
            self.note(frame, step, self.functions[name])

    def note_one(self, text, names, function, step, epoch, local, everywhere):
        try:
            value, number, kind, shape, dtype = value_cells(evaluate_name(names, local, everywhere))
        except (KeyError, UnboundLocalError):
            return  # not assigned yet
        except Exception as error:
            if text not in self.failed:
                self.failed.add(text)
                torch_says("exprs: %s@%s raises %s" % (text, function, type(error).__name__))
            return
        self.variables(None, step, function, text, value, number, kind, shape, dtype)
        if number is not None:
            self.metrics(None, "exprs", self.rows, epoch, step, text, number, None)


def is_in_file(code, file):
    return code.co_filename == file or code.co_filename.endswith("/" + file)


class Monitor(object):
    """sys.monitoring, for what is not on the stack when a step ends."""

    def __init__(self, exprs):
        self.exprs, self.monitoring, self.tool = exprs, getattr(sys, "monitoring", None), None
        self.files = {file for file, _ in exprs.lines}

    def start(self):
        """Returns whether there is one to be had."""
        if self.monitoring is None:
            return False
        for tool in TOOLS:
            if self.monitoring.get_tool(tool) is None:
                self.monitoring.use_tool_id(tool, "probing")
                self.tool = tool
                break
        else:
            return False
        events = self.monitoring.events
        self.monitoring.register_callback(self.tool, events.PY_RETURN, self.on_return)
        self.monitoring.register_callback(self.tool, events.PY_START, self.on_start)
        self.monitoring.register_callback(self.tool, events.LINE, self.on_line)
        returns = events.PY_RETURN if self.exprs.functions else 0
        self.monitoring.set_events(self.tool, returns | (events.PY_START if self.files else 0))
        self.monitoring.restart_events()
        if self.files:  # functions that were entered before
            for frame in list(sys._current_frames().values()):
                while frame is not None:
                    self.on_start(frame.f_code, 0)
                    frame = frame.f_back
        return True

    def stop(self):
        if self.tool is None:
            return
        self.monitoring.set_events(self.tool, 0)
        for event in ("PY_RETURN", "PY_START", "LINE"):
            self.monitoring.register_callback(self.tool, getattr(self.monitoring.events, event), None)
        self.monitoring.free_tool_id(self.tool)
        self.tool = None

    def file_of(self, code):
        return next((file for file in self.files if is_in_file(code, file)), None)

    # Whatever goes wrong here must not reach the job: we may be leaving on another thread.

    def on_return(self, code, offset, value):
        try:
            if code.co_name not in self.exprs.functions:
                return self.monitoring.DISABLE
            self.exprs.note_return(sys._getframe(1), torch_step())
        except Exception:
            pass

    def on_start(self, code, offset):
        try:
            if self.file_of(code) is not None and self.tool is not None:
                self.monitoring.set_local_events(self.tool, code, self.monitoring.events.LINE)
            return self.monitoring.DISABLE
        except Exception:
            pass

    def on_line(self, code, line):
        try:
            wanted = self.exprs.lines.get((self.file_of(code), line))
            if wanted is None:
                return self.monitoring.DISABLE
            self.exprs.note(sys._getframe(1), torch_step(), wanted)
        except Exception:
            pass


def start_exprs(texts):
    """Returns what is to be called when a step ends, or None."""
    if not texts:
        return None
    exprs = expr_state["exprs"] = Exprs(texts)
    if sys.version_info >= (3, 12):
        monitor = expr_state["monitor"] = Monitor(exprs)
        expr_state["no_place"] = not monitor.start() and bool(exprs.lines)
    else:
        from .expr_places import Places

        exprs.places = expr_state["monitor"] = Places(exprs)
    return exprs.on_step


def find_expr_places():
    """Looks for code that was not there yet. Returns whether some is missing."""
    places = getattr(expr_state.get("exprs"), "places", None)
    return places is not None and places.look()


def stop_exprs():
    if "monitor" in expr_state:
        expr_state["monitor"].stop()
    expr_state.clear()
    dtype_names.clear()
