"""A recursion that is deeper than what is shown of a stack: `python target_deep.py DEPTH`."""

import os
import sys
import threading

gate = os.pipe()  # nothing ever comes through it


def down(depth):
    if depth:
        down(depth - 1)
    else:
        os.write(1, b"ready\n")
        os.read(gate[0], 1)


def root():
    down(int(sys.argv[1]))


sys.setrecursionlimit(1 << 20)
threading.stack_size(512 << 20)
thread = threading.Thread(target=root)
thread.start()
thread.join()
