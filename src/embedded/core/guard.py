# Evaluated code does not end the job by accident. Runs in the target. Python 3.6 syntax, built-in modules
# only.
import posix

from .describe import Refused

OF_OS = "_exit abort kill killpg execv execve execl execle execlp execlpe execvp execvpe"
ENDS = {
    "os": OF_OS,
    "posix": OF_OS,
    "signal": "raise_signal pthread_kill alarm setitimer",
    "_thread": "interrupt_main",
}


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

    def timer(what):
        def set_it(original, *args):
            if any(args[-2 if what == "setitimer" and len(args) > 2 else -1 :]):  # 0 takes a timer back
                refuse("signal.%s(), whose signal comes to the job," % what)
            return original(*args)

        return set_it

    def pthread_kill(original, thread, number):
        if number != 0:
            refuse("a signal to a thread of the job")
        return original(thread, number)

    both = ("posix", "os")
    signals = ("_signal", "signal")
    for name in ("execv", "execve"):
        instead.put(both, name, lambda original, *args: refuse("another program in the job's place"))
    instead.put(signals, "alarm", timer("alarm"))
    instead.put(signals, "setitimer", timer("setitimer"))
    instead.put(signals, "pthread_kill", pthread_kill)
    instead.put(("_thread",), "interrupt_main", lambda original, *args: refuse("_thread.interrupt_main()"))
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
