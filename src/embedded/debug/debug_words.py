# The words of `probing debug`, and the questions of a debug adapter. Each word gets the debugger and the
# rest of its line. An answer begins with @paused, @running or @off in a line of its own. Python 3.6 syntax.
from ..console.evaluate import FILE_NAME, run
from ..console.magics import short, where
from ..console.session import FrameScope, find_thread, needs_more
from ..console.show import pretty, show, source_of
from ..core.describe import Refused, source_line
from .codes import need_gil
from .debug_questions import QUESTIONS, to_json
from .debugger import debugger

LIST_AROUND = 5
INCOMPLETE = "..."  # of interact: another line has to follow


def place_of(frame):
    line = source_line(frame.f_code.co_filename, frame.f_lineno)
    text = "%s:%d in %s()" % (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    return "> %s\n-> %s" % (text, line) if line else "> " + text


def word_where(bug, rest):
    """the stack, innermost frame last"""
    frames = bug.frames()
    bug.chosen_frame()
    lines = []
    for number in range(len(frames) - 1, -1, -1):
        mark = ">" if number == bug.chosen else " "
        lines.append("%s %2d  %s" % (mark, number, where(frames[number])))
    return "\n".join(lines)


def word_up(bug, rest):
    """to the frame that called this one"""
    bug.chosen_frame()
    if bug.chosen + 1 >= len(bug.frames()):
        raise Refused("this is the outermost frame")
    bug.chosen += 1
    return place_of(bug.chosen_frame())


def word_down(bug, rest):
    """to the frame that this one called"""
    bug.chosen_frame()
    if bug.chosen == 0:
        raise Refused("this is the innermost frame")
    bug.chosen -= 1
    return place_of(bug.chosen_frame())


def word_print(bug, rest):
    """print EXPRESSION"""
    return show(eval(compile(rest, FILE_NAME, "eval"), FrameScope(bug.chosen_frame(), None)))


def word_pp(bug, rest):
    """pp EXPRESSION: the value in lines that can be read"""
    return pretty(eval(compile(rest, FILE_NAME, "eval"), FrameScope(bug.chosen_frame(), None)))


def word_args(bug, rest):
    """the arguments of the function"""
    frame = bug.chosen_frame()
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    names = dict(frame.f_locals)
    shown = ["%s = %s" % (name, short(names[name])) for name in code.co_varnames[:count] if name in names]
    return "\n".join(shown) or "%s() has no arguments" % code.co_name


def word_ll(bug, rest):
    """the source of the whole function"""
    frame = bug.chosen_frame()
    source = source_of(frame.f_code)
    if source is None:
        raise Refused("the source %s cannot be read" % frame.f_code.co_filename)
    lines = []
    for number, line in enumerate(source.split("\n"), frame.f_code.co_firstlineno):
        lines.append("%4d %s %s" % (number, "->" if number == frame.f_lineno else "  ", line))
    return "\n".join(lines)


def word_display(bug, rest):
    """display EXPRESSION: its value at every stop; alone: the list"""
    if not rest:
        return "\n".join(bug.displayed) or "nothing is displayed"
    compile(rest, FILE_NAME, "eval")
    if rest not in bug.displayed:
        bug.displayed.append(rest)
    return displayed_at(bug, [rest])


def word_undisplay(bug, rest):
    """undisplay EXPRESSION: no longer; alone: nothing any more"""
    if rest and rest not in bug.displayed:
        raise Refused("%s is not displayed; `display` lists what is" % rest)
    bug.displayed = [each for each in bug.displayed if rest and each != rest]


def displayed_at(bug, expressions):
    lines = []
    for expression in expressions:
        try:
            value = short(eval(compile(expression, FILE_NAME, "eval"), FrameScope(bug.chosen_frame(), None)))
        except Exception as error:
            value = "%s: %s" % (type(error).__name__, error)
        lines.append("display %s = %s" % (expression, value))
    return "\n".join(lines)


def word_interact(bug, rest):
    """Python's prompt with the names of the frame; ^D comes back"""
    lines = rest.split("\n")
    if not lines[-1].strip():  # the prompt indents; a line that is left empty ends the block
        rest = "\n".join(lines[:-1] + [""])
    if needs_more(rest):
        return INCOMPLETE
    value = run(rest, FrameScope(bug.chosen_frame(), bug.typed))
    return None if value is None else pretty(value)


def word_full(bug, rest):
    """full on | off: stop and step also in code of libraries"""
    if rest not in ("on", "off"):
        raise Refused("full takes on or off; it is %s" % ("on" if bug.full else "off"))
    bug.full = rest == "on"
    return "stops %s" % ("everywhere" if bug.full else "in your own code only")


def word_locals(bug, rest):
    """the local variables"""
    names = dict(bug.chosen_frame().f_locals)
    return "\n".join("%s = %s" % (name, short(value)) for name, value in sorted(names.items()))


def word_list(bug, rest):
    """the source around the line, or around `list LINE`"""
    frame = bug.chosen_frame()
    middle = int(rest) if rest.isdigit() else frame.f_lineno
    lines = []
    try:
        with open(frame.f_code.co_filename, "rb") as file:
            for number, line in enumerate(file, 1):
                if abs(number - middle) <= LIST_AROUND:
                    mark = "->" if number == frame.f_lineno else "  "
                    lines.append("%4d %s %s" % (number, mark, line.decode("utf-8", "replace").rstrip()))
    except OSError as error:
        raise Refused(str(error)) from None
    return "\n".join(lines)


def word_next(bug, rest):
    """on to the next line of this function"""
    bug.resume(("next", bug.chosen_frame(), 0))


def word_step(bug, rest):
    """on to the next line, into calls"""
    bug.chosen_frame()
    bug.resume(("step", None, 0))


def word_until(bug, rest):
    """on to a line further down, or to `until LINE`: leaves loops"""
    frame = bug.chosen_frame()
    bug.resume(("until", frame, int(rest) if rest.isdigit() else frame.f_lineno + 1))


def word_return(bug, rest):
    """on until this function has returned"""
    bug.resume(("return", bug.chosen_frame(), 0))


def word_continue(bug, rest):
    """on until a breakpoint"""
    bug.chosen_frame()
    bug.resume(None)


def word_pause(bug, rest):
    """stop at the next line that is executed"""
    bug.interrupt()


def word_detach(bug, rest):
    """let the thread go on and leave; so do quit, ^D and closing the terminal"""
    bug.detach()


def breakpoint_from(bug, rest, temporary):
    place, _, condition = rest.partition(" if ")
    place = place.strip().rstrip(",").strip()
    if not place:
        return "\n".join(each.text() for _, each in sorted(bug.breakpoints.items())) or "no breakpoints"
    if place.isdigit():
        place = "%s:%s" % (bug.chosen_frame().f_code.co_filename, place)
    return bug.add_breakpoint(place, condition.strip(), temporary).text()


def word_break(bug, rest):
    """break FILE:LINE | LINE | FUNCTION [if CONDITION]; alone: the list"""
    return breakpoint_from(bug, rest, False)


def word_tbreak(bug, rest):
    """the same, for one time"""
    return breakpoint_from(bug, rest, True)


def numbered(bug, text):
    if not text.isdigit() or int(text) not in bug.breakpoints:
        raise Refused("there is no breakpoint %s; `break` lists them" % text)
    return bug.breakpoints[int(text)]


def word_condition(bug, rest):
    """condition NUMBER [EXPRESSION]: stop only when it is true"""
    number, _, condition = rest.partition(" ")
    point = numbered(bug, number)
    point.compiled = compile(condition, FILE_NAME, "eval") if condition else None
    point.condition = condition
    return point.text()


def word_clear(bug, rest):
    """clear NUMBER | all: remove breakpoints"""
    if rest == "all":
        bug.breakpoints.clear()
    else:
        del bug.breakpoints[numbered(bug, rest).number]
    if bug.ident is not None:
        bug.backend.follow()


def word_catch(bug, rest):
    """catch on | off | CLASS: stop where an exception, or one of that class, is raised"""
    if bug.ident is None:
        raise Refused("that is over: nothing stops there any more")
    bug.catch = {"": "BaseException", "on": "BaseException", "off": ""}.get(rest, rest)
    bug.backend.follow()
    which = "an exception" if bug.catch == "BaseException" else bug.catch
    return "stops where %s is raised" % which if bug.catch else "exceptions do not stop"


def word_help(bug, rest):
    """this list"""
    lines = ["%-10s %s" % (name, WORDS[name].__doc__) for name in sorted(WORDS)]
    return "\n".join(
        lines
        + ["anything else is run as Python in the frame, as in `lr = 0.1`; `!next = 1` for names of words"]
    )


WORDS = {name[5:]: value for name, value in list(globals().items()) if name.startswith("word_")}
SHORT = {
    "w": "where", "bt": "where", "u": "up", "d": "down", "p": "print", "l": "list", "n": "next", "s": "step",
    "unt": "until", "r": "return", "c": "continue", "cont": "continue", "b": "break", "q": "detach",
    "quit": "detach", "exit": "detach", "h": "help", "?": "help", "cl": "clear", "a": "args",
}  # fmt: skip


def debug_word(bug, text):
    word, _, rest = text.partition(" ")
    word = SHORT.get(word, word)
    looks_like_code = rest.lstrip().startswith("=") and not rest.lstrip().startswith("==")
    if word in WORDS and not looks_like_code:
        return WORDS[word](bug, rest.strip())
    value = run(text.lstrip("!"), FrameScope(bug.chosen_frame(), {}))
    return None if value is None else show(value)


def talk_debug(source, options):
    from .post_mortem import begin_post_mortem

    bug = debugger()
    owner = options.get("session", "")
    word, _, rest = source.strip(" \r\n").partition(" ")
    if word == "attach":
        need_gil()
        words = rest.split()
        full = "full" in words
        thread = "".join(word for word in words if word != "full")
        bug.attach(owner, find_thread(thread), float(options.get("max_pause") or 600), full)
        return "@" + bug.state
    if word == "postmortem":
        return begin_post_mortem(bug, owner)
    if bug.state == "off" or bug.owner != owner:
        return "@off\nthe debugger is not attached (any more): the thread runs"
    bug.commands += 1
    try:
        if word == "json":
            return "@%s\n%s" % (
                bug.state,
                to_json(QUESTIONS[rest.partition(" ")[0]](bug, rest.partition(" ")[2])),
            )
        if word == "stopped":
            lines = [bug.reason, place_of(bug.chosen_frame()), displayed_at(bug, bug.displayed)]
            return "@%s\n%s" % (bug.state, "\n".join(line for line in lines if line))
        before = bug.resumed
        if word == "interact":
            text = word_interact(bug, source.partition(" ")[2])
        else:
            text = debug_word(bug, source.strip()) if source.strip() else None
        # It may have stopped again already: who waits for that is told where.
        state = bug.state if bug.resumed == before else "running"
        return "@%s%s" % (state, "" if text is None else "\n" + text)
    finally:
        bug.commands -= 1
