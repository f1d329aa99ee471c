# ruff: noqa: F821  describe.py and instead.py come before this file.
# Evaluated code does not end the job by accident. Runs in the target. Python 3.6 syntax, built-in modules
# only.
import posix

ENDS = {"os": "_exit abort kill killpg", "posix": "_exit abort kill killpg", "signal": "raise_signal"}


def guard_the_end(instead):
    def refuse(what):
        raise Refused(
            "%s would end the job, and was not done. `probing repl` asks when it is typed there; "
            "`probing eval --yes` does it" % what
        )

    def kill(original, pid, number):
        if number != 0 and pid in (0, -1, instead.pid, -posix.getpgrp()):
            refuse("a signal to the job's own process")
        return original(pid, number)

    def killpg(original, group, number):
        if number != 0 and group in (0, posix.getpgrp()):
            refuse("a signal to the job's own group of processes")
        return original(group, number)

    both = ("posix", "os")
    instead.put(both, "_exit", lambda original, *code: refuse("os._exit()"))
    instead.put(both, "abort", lambda original: refuse("os.abort()"))
    instead.put(both, "kill", kill)
    instead.put(both, "killpg", killpg)
    instead.put(("_signal", "signal"), "raise_signal", lambda original, n: refuse("signal.raise_signal()"))


def may_end(tree):
    """The first thing in it that ends a process without asking Python; "" when there is none."""
    todo = [tree]
    while todo:
        node = todo.pop()
        kind = type(node).__name__
        if kind == "Attribute" and type(node.value).__name__ == "Name":
            if node.attr in ENDS.get(node.value.id, "").split():
                return "%s.%s" % (node.value.id, node.attr)
        elif kind == "ImportFrom" and node.module in ENDS:
            for alias in node.names:
                if alias.name in ENDS[node.module].split():
                    return "%s.%s" % (node.module, alias.name)
        for field in node._fields:
            child = getattr(node, field, None)
            todo += [
                each for each in (child if isinstance(child, list) else [child]) if hasattr(each, "_fields")
            ]
    return ""
