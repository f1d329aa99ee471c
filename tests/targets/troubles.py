"""Ways to hang, for targets that go wrong on purpose. Python 3.6."""

import ctypes
import os
import threading
import time


def wait_for_ever():
    while True:
        time.sleep(3600)


def take(first, second, met):
    with first:
        met.wait()
        with second:
            pass


def deadlock():
    a, b, met = threading.Lock(), threading.Lock(), threading.Barrier(2)
    threading.Thread(target=take, args=(a, b, met), name="one", daemon=True).start()
    take(b, a, met)


def keep_the_gil():
    ctypes.PyDLL(None).sleep(3600)


def wait_in_the_kernel(folder):
    """The parent of a vfork waits uninterruptibly for its child, which waits for somebody to write."""
    fifo = os.path.join(folder, "fifo")
    os.mkfifo(fifo)
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)])
