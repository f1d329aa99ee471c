# What a debug adapter asks the debugger; each answer becomes JSON. Python 3.6 syntax, built-in modules only:
# the job may not have imported json.
from ..console.evaluate import run
from ..console.magics import short
from ..console.session import FrameScope, thread_names
from ..console.show import is_tensor, show
from ..core.describe import Refused


def to_json(value):
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return "{%s}" % ",".join(to_json(str(key)) + ":" + to_json(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ",".join(map(to_json, value))
    text = str(value)
    letters = []
    for letter in text:
        if letter in '"\\':
            letters.append("\\" + letter)
        elif ord(letter) < 32 or 0xD800 <= ord(letter) < 0xE000:
            letters.append("\\u%04x" % ord(letter))
        else:
            letters.append(letter)
    return '"%s"' % "".join(letters)


def ask_stack(bug, rest):
    bug.chosen_frame()
    return [
        {"id": number, "name": frame.f_code.co_name, "file": frame.f_code.co_filename, "line": frame.f_lineno}
        for number, frame in enumerate(bug.frames())
    ]


def ask_reason(bug, rest):
    return {"reason": bug.reason, "tid": thread_names().get(bug.ident, (0, ""))[0] or 0}


def ask_variables(bug, rest):
    """Of frame N; `N.name.0` is what is inside of a variable."""
    path = rest.split("\t")
    bug.chosen = int(path[0])
    value = dict(bug.chosen_frame().f_locals)
    for step in path[1:]:
        value = dict(children(value))[step]
    return [
        {"name": name, "value": short(each), "type": type(each).__name__, "inside": bool(children(each))}
        for name, each in children(value)
    ]


def children(value):
    if isinstance(value, dict):
        return [(str(key), each) for key, each in list(value.items())[:200]]
    if isinstance(value, (list, tuple)):
        return [(str(number), each) for number, each in enumerate(value[:200])]
    if is_tensor(value) or isinstance(value, (type, str, bytes, int, float)) or callable(value):
        return []
    return list(getattr(value, "__dict__", {}).items())[:200]


def ask_evaluate(bug, rest):
    number, _, code = rest.partition(" ")
    bug.chosen = int(number)
    value = run(code, FrameScope(bug.chosen_frame(), {}))
    return {"value": "" if value is None else show(value), "type": type(value).__name__}


def ask_threads(bug, rest):
    return [{"tid": tid or ident, "name": name} for ident, (tid, name) in sorted(thread_names().items())]


def ask_set(bug, rest):
    """Replaces the breakpoints of a file: file, then line and condition in turn, separated by tabs."""
    parts = rest.split("\t")
    for number, point in list(bug.breakpoints.items()):
        if point.place.rpartition(":")[0] == parts[0]:
            del bug.breakpoints[number]
    answers = []
    for line, condition in zip(parts[1::2], parts[2::2]):
        try:
            point = bug.add_breakpoint("%s:%s" % (parts[0], line), condition, False)
            answers.append({"verified": True, "line": point.line, "id": point.number})
        except (Refused, SyntaxError) as error:
            answers.append({"verified": False, "message": str(error)})
    bug.backend.follow()
    return answers


QUESTIONS = {name[4:]: value for name, value in list(globals().items()) if name.startswith("ask_")}
