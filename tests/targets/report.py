"""How a target talks to the tests: one ready line on stdout, then counters in a shared file.

A counter costs no system call, so that reporting never changes what is observed. The ready line
names the counters: "ready loops wrong". Python 3.6 syntax.
"""

import mmap
import os
import struct
import sys

SLOTS = 64


class Report:
    def __init__(self, *names):
        self._names = names  # a dict of Python 3.5 has no order
        self._index = {name: i for i, name in enumerate(names)}
        path = os.environ.get("TARGET_REPORT")
        if path:
            with open(path, "r+b") as file:
                self._slots = mmap.mmap(file.fileno(), SLOTS * 8)
        else:
            self._slots = mmap.mmap(-1, SLOTS * 8)

    def ready(self):
        sys.stdout.write("ready " + " ".join(self._names) + "\n")
        sys.stdout.flush()

    def __getitem__(self, name):
        return struct.unpack_from("<Q", self._slots, self._index[name] * 8)[0]

    def __setitem__(self, name, value):
        struct.pack_into("<Q", self._slots, self._index[name] * 8, value)
