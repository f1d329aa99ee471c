# The %… helpers of a session. Each gets the session and the rest of its line and returns what is to be
# printed. Runs in the target. Python 3.6 syntax, built-in modules only.
import sys

from ..core.describe import Refused
from .at_step import begin_at_step, step_hooks
from .evaluate import FILE_NAME, ONLY_AST, run
from .session import Scope, find_thread, stack_of, thread_names
from .show import describe_tensor, is_tensor, pretty, show

MOST_VALUE = 200
TIMEIT_SECONDS = 0.1  # of one run, at least
TIMEIT_RUNS = 5
MOST_LOOPS = 10000000


def where(frame):
    return "%s (%s:%s)" % (frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno)


def short(value):
    try:
        text = show(value, 10 * MOST_VALUE)
    except Exception as error:
        text = "<repr() failed: %s: %s>" % (type(error).__name__, error)
    text = " ".join(text.split())
    return text if len(text) <= MOST_VALUE else text[:MOST_VALUE] + "…"


def thread_of(session):
    if session.ident is None or session.ident not in sys._current_frames():
        session.ident = find_thread("")
        session.level = session.code = None
    return session.ident


def magic_bt(session, rest):
    """the Python stacks of all threads, innermost frame first"""
    lines = []
    for ident, (tid, name) in sorted(thread_names().items(), key=lambda item: str(item[1])):
        lines.append('Thread %s "%s"' % (tid or ident, name))
        lines += ["    " + where(frame) for frame in stack_of(ident)]
    return "\n".join(lines)


def magic_threads(session, rest):
    """the threads, with the number that %thread takes"""
    chosen = thread_of(session)
    lines = []
    for ident, (tid, name) in sorted(thread_names().items(), key=lambda item: str(item[1])):
        lines.append("%s %-8s %s" % ("*" if ident == chosen else " ", tid or ident, name))
    return "\n".join(lines)


def magic_thread(session, rest):
    """%thread TID: the thread that %frame and %frames look at"""
    session.ident = find_thread(rest)
    session.level = session.code = None
    return magic_frames(session, "")


def magic_frames(session, rest):
    """the frames of the thread, with the number that %frame takes"""
    frames = stack_of(thread_of(session))
    chosen = session.frame() if session.level is not None else None
    return "\n".join(
        "%s %2d  %s" % ("*" if frame is chosen else " ", number, where(frame))
        for number, frame in enumerate(frames)
    )


def magic_frame(session, rest):
    """%frame N: evaluate with the names of that frame; %frame off: no longer"""
    thread_of(session)
    if rest == "off":
        session.level = session.code = None
        return None
    if not rest:
        frame = session.frame()
        return where(frame) if frame is not None else "no frame is chosen; %frames shows them"
    if not rest.isdigit():
        raise Refused("%frame takes a number or off; %frames shows the numbers")
    return where(session.choose(int(rest)))


def move(session, by):
    thread_of(session)
    if session.level is None:
        return where(session.choose(0))
    session.frame()
    return where(session.choose(session.number() + by))


def magic_up(session, rest):
    """to the frame that called this one"""
    return move(session, 1)


def magic_down(session, rest):
    """to the frame that this one called"""
    return move(session, -1)


def magic_locals(session, rest):
    """the local variables of the chosen frame"""
    frame = session.frame()
    if frame is None:
        raise Refused("no frame is chosen: %frame N chooses one, %frames shows them")
    return "\n".join("%s = %s" % (name, short(value)) for name, value in sorted(dict(frame.f_locals).items()))


def magic_who(session, rest):
    """the names this session has made"""
    lines = []
    for name, value in sorted(session.names.items()):
        if name not in ("_", "__builtins__"):
            lines.append("%-16s %-16s %s" % (name, type(value).__name__, short(value)))
    return "\n".join(lines) or "nothing yet; names of the job's __main__ can be used as they are"


def magic_time(session, rest):
    """%time CODE: how long it takes"""
    time = sys.modules.get("time") or __import__("time")
    begun, begun_cpu = time.time(), time.process_time()
    value = run(rest, session.scope())
    wall, cpu = time.time() - begun, time.process_time() - begun_cpu
    text = "wall %.6f s; the whole process used %.6f s of CPU meanwhile" % (wall, cpu)
    if value is None:
        return text
    session.names["_"] = value
    return pretty(value) + "\n" + text


def magic_timeit(session, rest):
    """%timeit CODE: how long it takes on average, when it is run again and again"""
    if not rest:
        raise Refused("%timeit CODE: what is to be measured?")
    time = sys.modules.get("time") or __import__("time")
    names = Scope(session.scope())  # what the code assigns goes with it
    loop = compile("for _ in _times:\n    " + rest, FILE_NAME, "exec")

    def run_loops(count):
        dict.__setitem__(names, "_times", range(count))
        begun = time.perf_counter()
        exec(loop, names)
        return time.perf_counter() - begun

    loops, seconds = 1, run_loops(1)
    while seconds < TIMEIT_SECONDS and loops < MOST_LOOPS:
        loops *= 10
        seconds = run_loops(loops)
    each = sorted([seconds / loops] + [run_loops(loops) / loops for _ in range(TIMEIT_RUNS - 1)])
    mean = sum(each) / len(each)
    return "%s per loop (mean of %d runs, %s to %s; %d loop%s each)" % (
        duration(mean), len(each), duration(each[0]), duration(each[-1]), loops, "" if loops == 1 else "s",
    )  # fmt: skip


def duration(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return "%.3g %s" % (seconds / size, unit)
    return "%.3g ns" % (seconds * 1e9)


def magic_at(session, rest):
    """%at step CODE: at the end of a step, which waits for it; %at step: so each line; %at off: no longer"""
    word, _, source = rest.partition(" ")
    if word not in ("step", "off") or word == "off" and source:
        raise Refused("%at takes step, step CODE or off")
    if not source.strip():
        if word == "step":
            step_hooks()  # says why that is not possible
        session.at_step = word == "step"
        return "lines run %s" % ("at the end of a step now" if session.at_step else "at once again")
    tree = compile(source.strip(), FILE_NAME, "exec", ONLY_AST)
    begin_at_step(session.step_hold)
    value = run(source, session.scope(), tree)
    if value is None:
        return None
    session.names["_"] = value
    return pretty(value)


def magic_stats(session, rest):
    """%stats EXPRESSION: smallest, largest and mean of a tensor; waits for one on a device"""
    value = run(rest, session.scope())
    if not is_tensor(value):
        raise Refused("%%stats is for tensors; this is %s" % type(value).__name__)
    session.names["_"] = value
    return describe_tensor(value, True)


def magic_main(session, rest):
    """work in __main__ itself: names you set are the job's; %main off: no longer"""
    session.in_main = rest != "off"
    session.level = session.code = None
    return "names you set now are %s" % ("the job's own" if session.in_main else "this session's")


def magic_magics(session, rest):
    """this list"""
    lines = ["%%%-9s %s" % (name, MAGICS[name].__doc__) for name in sorted(MAGICS)]
    lines += ["obj?       what it is; obj?? with its source", "!sql …     a question in SQL"]
    return "\n".join(lines)


MAGICS = {name[6:]: function for name, function in list(globals().items()) if name.startswith("magic_")}


def magic(session, text):
    word, _, rest = text.strip().partition(" ")
    if word not in MAGICS:
        raise Refused("there is no %%%s; %%magics lists all" % word)
    return MAGICS[word](session, rest.strip())
