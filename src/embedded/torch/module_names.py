# What the modules of the job's models are called. Runs in the target with the GIL. Python 3.6 syntax,
# built-in modules only.
from _weakref import ref

from ..native import torch_forget, torch_name

torch_options = {}  # of the setting; empty: off
module_refs = {}  # id of a module → (weak reference, which says when it goes; its path; how deep that is)
walked = set()  # ids of models whose modules were named in this step


def matches(pattern, text):
    """As a shell matches names: * ? [abc] [!a-c]."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return matches(pattern[1:], text) or bool(text) and matches(pattern, text[1:])
    if not text:
        return False
    end = pattern.find("]", 2)
    if pattern[0] == "[" and end > 0:
        negated = pattern[1] == "!"
        chars, found, i = pattern[1 + negated : end], False, 0
        while i < len(chars):
            if chars[i + 1 : i + 2] == "-" and i + 2 < len(chars):
                found = found or chars[i] <= text[0] <= chars[i + 2]
                i += 3
            else:
                found = found or chars[i] == text[0]
                i += 1
        return found != negated and matches(pattern[end + 1 :], text[1:])
    return pattern[0] in ("?", text[0]) and matches(pattern[1:], text[1:])


def note_module(module, path, depth):
    """The deepest place counts: tracing that begins in the middle of a model's call sees a part of it first,
    and takes that for a model of its own."""
    key = id(module)
    if key in module_refs and module_refs[key][2] >= depth:
        return

    def gone(_, key=key, refs=module_refs, forget=torch_forget):
        refs.pop(key, None)
        forget(key)

    module_refs[key] = ref(module, gone), path, depth
    patterns = torch_options.get("modules", ["*"])
    torch_name(module, path, type(module).__name__, any(matches(one, path) for one in patterns))


def name_modules(root, module):
    """A module has no name yet: names all of the model it was called in, at most once a step."""
    if root is not None and id(root) not in walked:
        walked.add(id(root))
        try:
            for path, one in root.named_modules():
                note_module(one, path or type(root).__name__, path.count(".") + 1 if path else 0)
        except Exception:
            pass  # a model that is being built, or has its own idea of named_modules()
    note_module(module, type(module).__name__, 0)
