# Sessions of `probing repl`: each has names of its own over those of the job's __main__, or over those
# of a frame. Runs in the target, on a thread of the probe. Python 3.6 syntax, built-in modules only.
import _thread
import sys

from ..core.alone import STAND_ALONE, undos
from ..core.bounded import bounded_repr
from ..core.describe import Refused
from ..core.guard import may_end
from ..core.own import is_own, keepers
from .evaluate import FILE_NAME, ONLY_AST, Incomplete, hints, operations, run

MOST_SESSIONS = 64
DONT_IMPLY_DEDENT = 0x200  # as codeop uses them
ALLOW_INCOMPLETE_INPUT = 0x4000
sessions = {}


class MayEndTheJob(Refused):
    """What was typed has to be confirmed first; nothing of it was run."""


class Scope(dict):
    """The names that code sees: its own, then those of each mapping in `below`."""

    was_made = False  # functions that the code defines keep it

    def __init__(self, *below):
        Scope.was_made = True
        dict.__init__(self)
        self.below = below

    def __missing__(self, name):
        for names in self.below:
            try:
                return names[name]
            except KeyError:
                pass
        raise KeyError(name)

    def known(self):
        found = set(self)
        for names in self.below:
            found.update(names.known() if isinstance(names, Scope) else names)
        return found


class FrameScope(Scope):
    """Names over those of a frame. What the frame has as a local variable is changed there."""

    def __init__(self, frame, session_names):
        self.kept = session_names
        self.local = dict(frame.f_locals)
        Scope.__init__(self, self.local, {} if session_names is None else session_names, frame.f_globals)
        self.frame = frame
        code = frame.f_code
        self.fast = frozenset(code.co_varnames + code.co_cellvars + code.co_freevars)

    def __setitem__(self, name, value):
        if name in self.fast or self.frame.f_locals is self.frame.f_globals:
            change_local(self.frame, name, value)
            self.local[name] = value
        elif name != "__builtins__" and self.kept is not None:
            self.kept[name] = value
        else:
            dict.__setitem__(self, name, value)


class PastFrame(object):
    """A frame as it was when the exception left it."""

    def __init__(self, traceback, caller):
        frame = traceback.tb_frame
        self.f_code, self.f_globals, self.f_locals = frame.f_code, frame.f_globals, frame.f_locals
        self.f_lineno = traceback.tb_lineno
        self.f_back = caller


def change_local(frame, name, value):
    from ..native import store_local

    if isinstance(frame, PastFrame):
        raise Refused("that call is over: its variables can be read, not changed")
    if frame.f_locals is frame.f_globals:
        frame.f_globals[name] = value
    elif not store_local(frame, name, value):
        raise Refused("this Python cannot change %s in a running frame" % name)


def main_names():
    return getattr(sys.modules.get("__main__"), "__dict__", {})


# ── threads and their frames ─────────────────────────────────────────────────────────────────


def thread_names():
    """ident → (tid of the kernel or None, name)."""
    threading = sys.modules.get("threading")
    known = dict(getattr(threading, "_active", {}))
    main = getattr(threading, "_main_thread", None)
    found = {}
    for ident in sys._current_frames():
        thread = known.get(ident)
        tid = getattr(thread, "_native_id", None)
        if thread is not None and thread is main or len(sys._current_frames()) == 1:
            tid = process_id()
        found[ident] = (tid, getattr(thread, "_name", None) or "?")
    found.pop(_thread.get_ident(), None)
    return found


def process_id():
    posix = sys.modules.get("posix") or __import__("posix")
    return posix.getpid()


def find_thread(tid):
    """The ident of a thread that is named by its kernel's id or by Python's; "" is the main thread."""
    names = thread_names()
    wanted = str(tid or process_id())
    for ident, (native, _) in names.items():
        if wanted == str(native) or wanted == str(ident):
            return ident
    threading = sys.modules.get("threading")
    main = getattr(getattr(threading, "_main_thread", None), "_ident", None)
    if wanted == str(process_id()) and names:
        return main if main in names else min(names)
    known = ", ".join(str(native or ident) for ident, (native, _) in sorted(names.items()))
    raise Refused("no thread %s runs Python code here; these do: %s" % (tid, known or "none"))


def stack_of(ident):
    """Innermost first, without our own: those of this thread would keep themselves alive."""
    frame = sys._current_frames().get(ident)
    mine = ident == _thread.get_ident()
    while frame is not None and (frame.f_globals is STAND_ALONE or mine and is_own(frame.f_globals)):
        frame = frame.f_back
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def frame_at(ident, number):
    frames = stack_of(ident)
    if not frames:
        raise Refused("that thread runs no Python code now")
    if not 0 <= number < len(frames):
        raise Refused(
            "there is no frame %d; 0 is the innermost, %d the outermost" % (number, len(frames) - 1)
        )
    return frames[number]


def hint_of_name(error, options):
    """Where a name that was not found is a local variable: in which function, and how to get there."""
    words = str(error).split("'")
    name = getattr(error, "name", None) or (words[1] if len(words) > 2 else "")
    try:
        main = find_thread("")
    except Refused:
        main = None
    for ident, (tid, _) in sorted(thread_names().items(), key=lambda item: item[0] != main):
        frames = stack_of(ident)
        for number, frame in enumerate(frames):
            code = frame.f_code
            if name not in code.co_varnames + code.co_cellvars + code.co_freevars:
                continue
            is_main = ident == main
            if options.get("op") == "line":
                way = (
                    "%%frame %d" % number
                    if is_main
                    else "%%thread %s, then %%frame %d" % (tid or ident, number)
                )
            else:
                way = "--frame %d" % number if is_main else "--thread %s --frame %d" % (tid or ident, number)
            place = "%s:%d" % (code.co_filename.rpartition("/")[2], frame.f_lineno)
            return "%s is a local variable of %s() (%s), frame %d%s: use %s\n" % (
                name, code.co_name, place, number, "" if is_main else " of thread " + str(tid or ident), way,
            )  # fmt: skip
    return ""


# ── sessions ─────────────────────────────────────────────────────────────────────────────────


def close_shell(session):
    shell, session.shell = session.shell, None
    if shell is not None:
        try:
            shell.atexit_operations()
        except Exception:
            pass


class Session(object):
    def __init__(self):
        self.names = Scope(main_names())
        self.in_main = False
        self.ident = None  # the thread it looks at
        self.level = None  # of its frame, counted from the outermost, which is what stays
        self.code = None
        self.shell = None  # of IPython, when that was asked for
        self.at_step = False  # lines run at the end of a step
        self.step_hold = ""

    def frame(self):
        if self.level is None:
            return None
        frames = stack_of(self.ident)
        at = len(frames) - 1 - self.level
        if at < 0 or frames[at].f_code is not self.code:
            name = self.code.co_name
            self.level = self.code = None
            raise Refused("the call of %s() that was chosen has ended; %%frames shows what runs now" % name)
        return frames[at]

    def number(self):
        return len(stack_of(self.ident)) - 1 - self.level

    def choose(self, number):
        frame = frame_at(self.ident, number)
        self.level = len(stack_of(self.ident)) - 1 - number
        self.code = frame.f_code
        return frame

    def scope(self):
        frame = self.frame()
        if frame is not None:
            return FrameScope(frame, self.names)
        return main_names() if self.in_main else self.names


def session_of(options):
    name = options.get("session", "")
    session = sessions.get(name)
    if session is None:
        while len(sessions) >= MOST_SESSIONS:
            close_shell(sessions.pop(next(iter(sessions))))
        session = sessions[name] = Session()
    return session


# ── a block of lines ─────────────────────────────────────────────────────────────────────────


def compiles(source, flags):
    try:
        compile(source, FILE_NAME, "single", flags)
    except SyntaxError as error:
        return error
    except (ValueError, OverflowError, MemoryError):
        return None  # run() will say it
    return None


def needs_more(source):
    """Whether a prompt should go on with `... `: as codeop decides it, which is no built-in module."""
    lines = [line for line in source.split("\n") if line.strip() and not line.strip().startswith("#")]
    if not lines:
        return False
    if sys.version_info >= (3, 11):
        flags = DONT_IMPLY_DEDENT | ALLOW_INCOMPLETE_INPUT
        first = compiles(source, flags)
        if first is None:
            return False
        second = compiles(source + "\n", flags)
        return second is None or "incomplete input" in str(second)
    first, second, third = [compiles(source + end, DONT_IMPLY_DEDENT) for end in ("", "\n", "\n\n")]
    return first is not None and not (second is not None and repr(second) == repr(third))


def talk_line(source, options):
    """What somebody typed at the prompt of a session. Returns what is to be printed."""
    from .at_step import begin_at_step
    from .ipython import ipython_line
    from .magics import magic
    from .show import explain, pretty

    session = session_of(options)
    lines = source.split("\n")
    if not lines[-1].strip():  # the prompt indents; a line that is left empty ends the block
        source = "\n".join(lines[:-1] + [""])
    text = source.strip()
    session.step_hold = options.get("step_hold", "")
    if options.get("ipython") == "1" and session.level is None:
        return ipython_line(session, source, options)
    if text.startswith("%"):
        return magic(session, text[1:])
    if text.endswith("?") and "\n" not in text:
        return explain(session, text.rstrip("?").strip(), text.endswith("??"))
    if options.get("whole") != "1" and needs_more(source):
        raise Incomplete()
    tree = compile(source, FILE_NAME, "exec", ONLY_AST)
    danger = options.get("confirmed") != "1" and may_end(tree)
    if danger:
        raise MayEndTheJob("%s may end the job; nothing was run" % danger)
    if session.at_step:
        begin_at_step(session.step_hold)
    value = run(source, session.scope(), tree)
    if value is None:
        return None
    session.names["_"] = value
    return pretty(value, options["limit"])


def talk_eval(source, options):
    """A single evaluation: in a copy of __main__'s names, or in a frame."""
    tree = compile(source, FILE_NAME, "exec", ONLY_AST)
    if options.get("at", "now") == "step":
        from .at_step import begin_at_step

        begin_at_step(options.get("step_hold"))
    elif "at" in options:
        raise Refused("an eval runs at a step, not at %s" % options["at"])
    if "thread" in options or "frame" in options:
        frame = frame_at(find_thread(options.get("thread", "")), int(options.get("frame") or 0))
        names = FrameScope(frame, None)
    elif "session" in options:
        names = session_of(options).scope()
    else:
        names = dict(main_names())
    value = run(source, names, tree)
    return None if value is None else bounded_repr(value, options["limit"])


def talk_hello(source, options):
    session = session_of(options)
    if options.get("ipython") == "1":
        from .ipython import shell_of

        shell_of(session)
    arguments = " ".join(getattr(sys, "argv", []))
    version = sys.version.split()[0]
    return "Python %s in process %d (%s)" % (version, process_id(), arguments or sys.executable)


def talk_close(source, options):
    session = sessions.pop(options.get("session", ""), None)
    if session is not None:
        close_shell(session)


leaving = []  # what has to be undone before the probe goes: functions


def leave():
    """Before the probe goes: nothing of ours stays in the job, and no function of ours here."""
    for undo in leaving:
        try:
            undo()
        except Exception:
            pass
    for session in sessions.values():
        close_shell(session)
    sessions.clear()


keepers.append(lambda: Scope.was_made or undos or leaving)
hints.append(hint_of_name)
operations.update(eval=talk_eval, line=talk_line, hello=talk_hello, close=talk_close)
