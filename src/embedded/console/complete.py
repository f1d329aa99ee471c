# Completion at the prompt of a session. Runs in the target; looks values up, never calls anything but
# what looking up calls. Python 3.6 syntax, built-in modules only.
import sys

from .evaluate import FILE_NAME, ONLY_AST
from .ipython import ipython_candidates
from .magics import MAGICS
from .session import Scope, session_of

KEYWORDS = (
    "and as assert async await break class continue def del elif else except finally for from global if "
    "import in is lambda nonlocal not or pass raise return try while with yield True False None"
).split()
MOST_CANDIDATES = 200
NAME_CHARACTERS = "_."


def word_before(text):
    """The dotted name that the text ends with."""
    start = len(text)
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] in NAME_CHARACTERS):
        start -= 1
    return text[start:]


def value_of(path, names):
    """Of a dotted name with constant subscripts; no calls."""
    tree = compile(path, FILE_NAME, "eval", ONLY_AST)
    allowed = ("Expression", "Name", "Load", "Attribute", "Subscript", "Index", "Constant", "Str", "Num")
    todo = [tree]
    while todo:
        node = todo.pop()
        if type(node).__name__ not in allowed:
            raise ValueError("not a plain name")
        for field in node._fields:
            child = getattr(node, field, None)
            if hasattr(child, "_fields"):
                todo.append(child)
    return eval(compile(tree, FILE_NAME, "eval"), names)


def key_candidates(text, names):
    """Keys after `d["ab`: those of a dict, or columns of what has keys()."""
    opening = max(text.rfind("['"), text.rfind('["'))
    if opening < 0 or "]" in text[opening:]:
        return None
    quote, typed = text[opening + 1], text[opening + 2 :]
    end = opening
    depth = 0
    start = end
    while start > 0 and (depth or text[start - 1].isalnum() or text[start - 1] in "_.]"):
        start -= 1
        depth += {"]": 1, "[": -1}.get(text[start], 0)
    try:
        keys = list(value_of(text[start:end], names).keys())
    except Exception:
        return None
    found = sorted(key for key in keys if isinstance(key, str) and key.startswith(typed) and quote not in key)
    return len(typed), [key + quote + "]" for key in found]


def module_candidates(text):
    words = text.split()
    if not words or words[0] not in ("import", "from"):
        return None
    if words[0] == "from" and "import" in words[1:]:
        module = sys.modules.get(words[1])
        typed = "" if text.endswith((" ", ",")) else text.replace(",", " ").split()[-1]
        if typed == "import" and not text.endswith(" "):
            return None
        names = dir(module) if module is not None else []
        return len(typed), sorted(name for name in names if name.startswith(typed))
    if text.endswith(" ") and len(words) > 1 and not text.rstrip().endswith(","):
        return None
    typed = "" if text.endswith((" ", ",")) else words[-1]
    depth = typed.count(".") + 1
    names = set(sys.modules) | set(sys.builtin_module_names)
    found = {".".join(name.split(".")[:depth]) for name in names if str(name).startswith(typed)}
    return len(typed), sorted(name for name in found if typed.startswith("_") or not name.startswith("_"))


def name_candidates(text, names):
    word = word_before(text)
    path, dot, typed = word.rpartition(".")
    if dot:
        attributes = set(dir(value_of(path, names)))
        found = [name for name in attributes if name.startswith(typed)]
    else:
        known = names.known() if isinstance(names, Scope) else set(names)
        known |= set(KEYWORDS) | set(
            dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__
        )
        found = [name for name in known if isinstance(name, str) and name.startswith(typed)]
    if not typed.startswith("_"):
        found = [name for name in found if not name.startswith("_")]
    return len(typed), sorted(found)


def talk_complete(source, options):
    """Text before the cursor in; out comes how many of its last characters are replaced, then a candidate
    on each line."""
    session = session_of(options)
    text = source.split("\n")[-1]
    stripped = text.lstrip()
    try:
        if stripped.startswith("%") and session.shell is not None:
            count, found = ipython_candidates(session, stripped)
        elif stripped.startswith("%"):
            count, found = len(stripped) - 1, sorted(n for n in MAGICS if n.startswith(stripped[1:]))
        else:
            names = session.scope()
            answer = module_candidates(stripped) or key_candidates(text, names)
            count, found = answer or name_candidates(text, names)
    except Exception:
        return "0"
    return "\n".join([str(count)] + found[:MOST_CANDIDATES])
