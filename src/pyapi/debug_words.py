# The words of `probing debug`, and the questions of a debug adapter. Each word gets the debugger and the
# rest of its line. An answer begins with @paused, @running or @off in a line of its own. Python 3.6 syntax.
from .codes import need_gil
from .debug_questions import QUESTIONS, to_json
from .debugger import debugger
from .describe import Refused, source_line
from .evaluate import FILE_NAME, run
from .magics import short, where
from .session import FrameScope, find_thread
from .show import show

LIST_AROUND = 5


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
    "quit": "detach", "exit": "detach", "h": "help", "?": "help", "cl": "clear", "a": "locals",
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
        bug.attach(owner, find_thread(rest), float(options.get("max_pause") or 600))
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
            return "@%s\n%s\n%s" % (bug.state, bug.reason, place_of(bug.chosen_frame()))
        before = bug.resumed
        text = debug_word(bug, source.strip()) if source.strip() else None
        # It may have stopped again already: who waits for that is told where.
        state = bug.state if bug.resumed == before else "running"
        return "@%s%s" % (state, "" if text is None else "\n" + text)
    finally:
        bug.commands -= 1
