"""Greenlets of two threads that stand still, and what Python says about them.

    python target_greenlets.py TRUTH [exposed]

Writes to the file TRUTH, as JSON, the stacks of the suspended greenlets of each thread, innermost frame
first; then waits. With `exposed`, the frames of the greenlets were looked at from Python, which links them
in another way. Others have not begun, are done, or run.
"""

import json
import os
import sys
import threading

import greenlet

gate = os.pipe()  # nothing ever comes through it
kept = []
truth = {"pid": os.getpid(), "main": [], "beside": []}


def note(where):
    """Adds the stack of the caller, who suspends itself in the same line."""
    frames, frame = [], sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        frames.append([getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno])
        frame = frame.f_back
    truth[where].append(frames)


class Worker(greenlet.greenlet):
    def __init__(self, where, depth):
        greenlet.greenlet.__init__(self)
        self.where = where
        self.depth = depth

    def run(self):
        # Through C and back, so that some frames are on the C stack.
        return list(map(self.descend, [self.depth]))

    def descend(self, depth):
        if depth:
            return max([depth], key=lambda rest: self.descend(rest - 1))
        return note(self.where), self.parent.switch()


def generate(where):
    yield note(where), greenlet.getcurrent().parent.switch()


def consume(where):
    return [value for value in generate(where)]


def make(where, count):
    workers = [Worker(where, depth) for depth in range(count)] + [greenlet.greenlet(consume)]
    for worker in workers[:-1]:
        worker.switch()
    workers[-1].switch(where)
    done = greenlet.greenlet(lambda: None)
    done.switch()
    kept.extend([*workers, done, greenlet.greenlet(consume)])


def wait_beside():
    ready.set()
    os.read(gate[0], 1)


def wait_here():
    if "exposed" in sys.argv:
        assert all(one.gr_frame for one in kept if one.gr_frame is not None)
    with open(sys.argv[1], "w") as file:
        json.dump(truth, file)
    os.write(1, b"ready\n")
    os.read(gate[0], 1)


def stand_still(where, wait):
    make(where, 4)
    runs = greenlet.greenlet(wait)
    return note(where), runs.switch()


ready = threading.Event()
if __name__ == "__main__":
    threading.Thread(target=stand_still, args=("beside", wait_beside), daemon=True).start()
    ready.wait()
    stand_still("main", wait_here)
