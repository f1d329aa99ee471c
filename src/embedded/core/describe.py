# Exceptions as text, and one of our own. Runs in the target. Python 3.6 syntax; imports only built-in
# modules, so that the job's sys.modules stays as it is.
from .own import is_own

MOST_FRAMES = 60
BECAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
MEANWHILE = "\nDuring handling of the above exception, another exception occurred:\n\n"


class Refused(Exception):
    """What was asked for cannot be done; the text says why and is all that is shown."""


class Capture(object):
    """Collects what is written, up to a limit."""

    def __init__(self, limit):
        self.parts = []
        self.left = limit
        self.cut = False

    def write(self, text):
        if len(text) > self.left:
            self.cut = True
            text = text[: self.left]
        if text:
            self.left -= len(text)
            self.keep(text)

    def keep(self, text):
        self.parts.append(text)

    def text(self):
        return "".join(self.parts)


def source_line(file_name, number):
    try:
        with open(file_name, "rb") as lines:
            for current, line in enumerate(lines, 1):
                if current == number:
                    return line.decode("utf-8", "replace").strip()
    except Exception:
        pass
    return ""


def describe_frames(tb, write):
    frames = []
    while tb is not None:
        if not is_own(tb.tb_frame.f_globals):  # ours are not shown
            frames.append((tb.tb_frame.f_code, tb.tb_lineno))
        tb = tb.tb_next
    if frames:
        write("Traceback (most recent call last):\n")
    if len(frames) > MOST_FRAMES:
        frames[MOST_FRAMES // 2 : -MOST_FRAMES // 2] = [None]
    for frame in frames:
        if frame is None:
            write("  ... more frames ...\n")
            continue
        code, line = frame
        write('  File "%s", line %s, in %s\n' % (code.co_filename, line, code.co_name))
        text = source_line(code.co_filename, line)
        if text:
            write("    %s\n" % text)


def describe(error, write, seen):
    """Like the interpreter's own printer, which would import traceback on 3.13 and later and so
    change the job."""
    seen.add(id(error))
    cause = error.__cause__
    previous = cause or (None if error.__suppress_context__ else error.__context__)
    if previous is not None and id(previous) not in seen:
        describe(previous, write, seen)
        write(BECAUSE if cause is not None else MEANWHILE)
    describe_frames(error.__traceback__, write)
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__"):
        name = "%s.%s" % (kind.__module__, name)
    try:
        text = str(error)
    except Exception:
        text = "<exception str() failed>"
    if isinstance(error, SyntaxError) and error.text:
        write('  File "%s", line %s\n    %s\n' % (error.filename, error.lineno, error.text.strip()))
        text = error.msg
    write("%s: %s\n" % (name, text) if text else "%s\n" % name)
