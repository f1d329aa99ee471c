"""Stands still with one chosen stack and says what that stack is.

    python target_stacks.py SCENARIO TRUTH

Writes to the file TRUTH, as JSON, the frames of every Python thread, innermost first, each as
[function, file, line]; prints its ready line and then waits inside that very call. So what is
seen from outside must be exactly that.
"""

import json
import os
import sys
import threading

SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def native_id():
    if hasattr(threading, "get_native_id"):
        return threading.get_native_id()
    return None


def frames_of(frame):
    frames = []
    while frame is not None:
        code = frame.f_code
        name = getattr(code, "co_qualname", code.co_name)
        frames.append([name, code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return frames


def publish(main_frame):
    current = sys._current_frames()
    threads = []
    for thread in threading.enumerate():
        is_main = thread is threading.current_thread()
        frames = frames_of(main_frame if is_main else current[thread.ident])
        threads.append({"name": thread.name, "tid": native_ids.get(thread.ident), "frames": frames})
    truth = {"pid": os.getpid(), "version": sys.version.split()[0], "threads": threads}
    with open(sys.argv[2], "w") as file:
        json.dump(truth, file)


def rendezvous():
    # One expression, so that no formatter moves the wait to another line than the one published.
    return publish(sys._getframe()), os.write(1, b"ready\n"), os.read(gate[0], 1)


gate = os.pipe()  # nothing ever comes through it
native_ids = {threading.get_ident(): native_id()}


@scenario
def plain():
    def inner():
        rendezvous()

    inner()


@scenario
def generator():
    def numbers():
        for i in range(3):
            if i == 2:
                rendezvous()
            yield i

    def outer_numbers():
        yield from numbers()

    for _ in outer_numbers():
        pass


# Python 3.4 cannot even read them, and has no such stacks.
COROUTINES = """
async def innermost():
    await asyncio.sleep(0)
    rendezvous()

async def middle():
    await innermost()

async def outermost():
    await middle()
"""


@scenario
def coroutine():
    import asyncio

    names = {"asyncio": asyncio, "rendezvous": rendezvous, "__name__": __name__}
    exec(compile(COROUTINES, __file__, "exec"), names)
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(names["outermost"]())
    finally:
        loop.close()


def noisy(function):
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


@scenario
def decorator():
    @noisy
    @noisy
    def decorated(a, b=None):
        rendezvous()

    decorated(1, b=2)


@scenario
def sort_key():
    def key(value):
        if value == 2:
            rendezvous()
        return value

    sorted([3, 1, 2], key=key)


@scenario
def comprehension():
    def stop(i):
        if i == 1:
            rendezvous()
        return i

    return [[stop(j) for j in range(i)] for i in range(3)]


@scenario
def exec_code():
    source = "\n\ndef made_at_run_time():\n    x = 1\n    rendezvous()\n\nmade_at_run_time()\n"
    exec(compile(source, "<made>", "exec"), {"rendezvous": rendezvous})


class Outer:
    class Inner:
        def method(self):
            rendezvous()

        def __init__(self, stop=False):
            if stop:
                self.method()

        @property
        def value(self):
            return self.method()

        def __enter__(self):
            return self.value

        def __exit__(self, *_):
            return False


@scenario
def nested_class():
    with Outer.Inner():
        pass


@scenario
def constructor():
    for i in range(20):  # often enough for the interpreter to specialise the call
        Outer.Inner(i == 19)


@scenario
def recursion():
    def down(n):
        if n:
            return down(n - 1)
        return rendezvous()

    sys.setrecursionlimit(2000)
    down(900)


@scenario
def mixed_recursion():
    def down(n):
        return max([n], key=lambda m: down(m - 1) or 0 if m else rendezvous() or 0)

    down(40)


@scenario
def multi_line_call():
    def returns(x):
        return x

    def stops(x):
        rendezvous()
        return x

    # fmt: off
    result = max(
        returns(1),
        returns(
            2
        ),
        stops(
            3
        ),
        returns(4),
    )
    # fmt: on

    return result


@scenario
def far_lines():
    # Jumps of more than 127 lines, forwards and backwards, need several table entries.
    lines = ["def far():", "    x = ["] + ["        0,"] * 400 + ["        stop(),", "    ]", "far()"]
    exec(compile("\n" * 500 + "\n".join(lines), "far.py", "exec"), {"stop": rendezvous})


@scenario
def non_ascii():
    source = "def größe():\n    функция()\ndef функция():\n    変数()\ndef 変数():\n    stop()\ngröße()\n"
    exec(compile(source, "/tmp/данные/ünïcödé-📦.py", "exec"), {"stop": rendezvous})


@scenario
def exception_handler():
    def fails():
        raise ValueError

    try:
        fails()
    except ValueError:
        rendezvous()
    finally:
        pass


@scenario
def threads():
    lock = threading.Lock()
    lock.acquire()
    ready = os.pipe()

    def waits(number):
        native_ids[threading.get_ident()] = native_id()
        return os.write(ready[1], b"."), lock.acquire()

    for i in range(5):
        threading.Thread(target=waits, args=(i,), name="waits-%d" % i, daemon=True).start()
    for _ in range(5):
        os.read(ready[0], 1)
    rendezvous()


@scenario
def named_threads():
    # As many modules as a job with torch has, and every way in which an object keeps its attributes.
    class Worker(threading.Thread):
        def __init__(self, **options):
            self.first = 1
            super().__init__(**options)

        def run(self):
            return os.write(ready[1], b"."), os.read(gate[0], 1)

    for i in range(5000):
        sys.modules["made-up-%d" % i] = sys
    ready = os.pipe()
    names = ["plain", "größe", "変数-📦", "a name of more than fifteen bytes", "dict made", "many attributes"]
    workers = [Worker(name=name, daemon=True) for name in names]
    vars(workers[4])["more"] = 1
    for i in range(100):
        setattr(workers[5], "attribute_%d" % i, i)
    for worker in workers:
        worker.start()
    for _ in names:
        os.read(ready[0], 1)
    workers[0].name = "renamed"
    rendezvous()


@scenario
def forked():
    # As a DataLoader worker: the child of a fork that did not exec. It ends with its parent.
    pid = os.fork()
    if pid == 0:
        os.close(gate[1])
        native_ids[threading.get_ident()] = native_id()
        rendezvous()
        os._exit(0)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    SCENARIOS[sys.argv[1]]()
