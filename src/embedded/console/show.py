# How a session shows values and explains objects. Runs in the target. Python 3.6 syntax, built-in
# modules only.
import sys

from ..core.bounded import BRACKETS, LEAST_ITEM, MOST_SHOWN, bounded_repr, entries, kind_of
from ..core.heap import DEFAULT_SECONDS, Pace
from ..core.still import sums_of
from .evaluate import FILE_NAME

SMALL_TENSOR = 64  # elements that are simply printed
MEASURED_TENSOR = 4000000  # elements whose smallest and largest are looked for
MOST_SOURCE_LINES = 400
LINE_WIDTH = 79  # of pretty()
SHORT_ENTRY = 24  # characters of an entry that may stand beside others
MOST_NESTED = 6
PRETTY = (list, tuple, set, frozenset, dict)


def is_tensor(value):
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    return isinstance(kind, type) and isinstance(value, kind)


def show(value, most=MOST_SHOWN):
    """As repr(), but a large tensor is described, one on a device is not waited for, and there is an end."""
    if is_tensor(value):
        return show_tensor(value)
    if type(value) in (list, tuple) and 0 < len(value) <= 100 and any(is_tensor(item) for item in value):
        inner = ",\n ".join(
            show_tensor(item) if is_tensor(item) else bounded_repr(item, most) for item in value
        )
        return "[%s]" % inner if type(value) is list else "(%s%s)" % (inner, "," if len(value) == 1 else "")
    return bounded_repr(value, most)


def pretty(value, most=MOST_SHOWN, indent=0, depth=0):
    """As show(), but what does not fit into a line has an entry on each, or several when they are short."""
    text = show(value, most)
    kind = kind_of(value)
    long = "\n" not in text and len(text) > LINE_WIDTH - indent
    if not long or type(value) is not kind or kind not in PRETTY or depth > MOST_NESTED:
        return text
    opening, closing = BRACKETS.get(kind, ("{", "}"))
    parts, left = [], most
    for entry in entries(value, most // LEAST_ITEM + 1):
        if left <= 0:
            break
        if kind is dict:
            key = bounded_repr(entry[0], left)
            at = indent + 1 + (len(key) + 2 if len(key) < SHORT_ENTRY else 0)
            parts.append("%s: %s" % (key, pretty(entry[1], max(left - len(key), 1), at, depth + 1)))
        else:
            parts.append(pretty(entry, left, indent + 1, depth + 1))
        left -= len(parts[-1]) + 2
    if len(parts) < len(value):
        parts.append("… (%d in all)" % len(value))
    lines = filled(parts, LINE_WIDTH - indent) if kind is not dict else parts
    comma = "," if kind is tuple and len(value) == 1 else ""
    return opening + (",\n " + " " * indent).join(lines) + comma + closing


def filled(parts, width):
    """Short entries side by side."""
    lines = []
    for part in parts:
        short_ones = lines and "\n" not in part and "\n" not in lines[-1] and len(part) <= SHORT_ENTRY
        if short_ones and len(lines[-1]) + 2 + len(part) < width:
            lines[-1] += ", " + part
        else:
            lines.append(part)
    return lines


def show_tensor(tensor):
    if str(tensor.device) == "cpu" and tensor.numel() <= SMALL_TENSOR:
        return repr(tensor)
    return describe_tensor(tensor, False)


def describe_tensor(tensor, may_wait):
    """Its values are looked at when they are here and few enough, or when somebody wants to wait."""
    device = str(tensor.device)
    text = "tensor(shape=%s, dtype=%s, device=%s" % (list(tensor.shape), tensor.dtype, device)
    if tensor.requires_grad:
        text += ", requires_grad=True"
    if device != "cpu" and not may_wait:
        return text + ")  # values stay on the device; %stats waits for them"
    few = tensor.numel() <= MEASURED_TENSOR or may_wait
    if few and tensor.numel() and tensor.layout is sys.modules["torch"].strided:
        try:
            text += describe_numbers(sys.modules["torch"], tensor)
        except Exception as error:
            text += ", no values: %s" % error
    return text + ")"


def describe_numbers(torch, tensor):
    """By loops of ours where that goes: torch's may start a pool of threads for the one we are on."""
    if tensor.dtype.is_complex:
        return ""
    if type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.dtype.is_floating_point:
        pace = Pace(DEFAULT_SECONDS)
        sums = sums_of(torch, tensor, None, pace.until, pace.breathe)
        if sums is not None:
            smallest, largest, mean = sums.smallest, sums.largest, sums.total / sums.count
            if sums.nonfinite and mean != mean:
                smallest = largest = mean  # as torch has it: a NaN is what all of them are
            return ", min=%.6g, max=%.6g, mean=%.6g" % (smallest, largest, mean)
    flat = tensor.detach()
    text = ", min=%.6g, max=%.6g" % (flat.min().item(), flat.max().item())
    return text + ", mean=%.6g" % flat.double().mean().item()


# ── obj? and obj?? ───────────────────────────────────────────────────────────────────────────


def signature(code):
    """The arguments of a function as its code has them; defaults are only counted."""
    names = list(code.co_varnames)
    count = code.co_argcount
    positional_only = getattr(code, "co_posonlyargcount", 0)
    keywords = names[count : count + code.co_kwonlyargcount]
    rest = names[count + code.co_kwonlyargcount :]
    parts = names[:count]
    if positional_only:
        parts.insert(positional_only, "/")
    if code.co_flags & 0x04:
        parts.append("*" + rest.pop(0))
    elif keywords:
        parts.append("*")
    parts += keywords
    if code.co_flags & 0x08:
        parts.append("**" + rest.pop(0))
    return "(%s)" % ", ".join(parts)


def source_of(code):
    """The lines of a function in its file: until something stands as far to the left as its def."""
    lines = []
    in_body = False
    try:
        with open(code.co_filename, "rb") as file:
            for number, line in enumerate(file, 1):
                if number < code.co_firstlineno:
                    continue
                text = line.decode("utf-8", "replace").rstrip()
                word = text.lstrip()
                indent = len(text) - len(word)
                if not lines:
                    margin = indent
                if in_body and word and indent <= margin and not word.startswith((")", "#")):
                    break
                if len(lines) >= MOST_SOURCE_LINES:
                    break
                lines.append(text)
                in_body = in_body or word.startswith(("def ", "async def ", "class ")) or "lambda" in word
    except (OSError, ValueError):
        return None
    return "\n".join(lines).rstrip()


def explain(session, name, with_source):
    from .magics import magic

    if not name:
        return magic(session, "magics")
    value = eval(compile(name, FILE_NAME, "eval"), session.scope())
    kind = type(value)
    rows = [("Type", "%s.%s" % (kind.__module__, kind.__qualname__))]
    try:
        text = show(value)
        rows.append(("Value", text if len(text) < 500 else text[:500] + "…"))
    except Exception as error:
        rows.append(("Value", "repr() failed: %s" % error))
    function = getattr(value, "__init__", None) if isinstance(value, type) else value
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is not None:
        rows.append(("Signature", name + signature(code)))
        rows.append(("File", "%s:%d" % (code.co_filename, code.co_firstlineno)))
    elif isinstance(getattr(value, "__file__", None), str):
        rows.append(("File", value.__file__))
    if hasattr(kind, "__len__"):
        try:
            rows.append(("Length", str(len(value))))
        except Exception:
            pass
    text = "\n".join("%-10s %s" % (title + ":", content) for title, content in rows)
    source = source_of(code) if with_source and code is not None else None
    if source:
        return text + "\nSource:\n" + source
    doc = getattr(value, "__doc__", None)
    return text + "\nDoc:\n" + doc.strip() if isinstance(doc, str) and doc.strip() else text
