"""A thread that stands still in the middle of a garbage collection, with the GIL held."""

import ctypes
import gc


class Cycle:
    def __init__(self):
        self.me = self

    def __del__(self):
        libc = ctypes.PyDLL(None)  # keeps the GIL
        libc.write(1, b"ready\n", 6)
        libc.sleep(1000)


def collect():
    gc.collect()


Cycle()
collect()
