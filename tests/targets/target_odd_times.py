"""Programs at times when a reader has to look twice.

    target_odd_times.py reuse|exit_handler|finalized|chains

reuse: threads that live for some milliseconds, one after the other. exit_handler: a function of atexit waits.
finalized: C code waits after the interpreter has ended. chains: two threads, each two subinterpreters deep.
"""

import atexit
import ctypes
import os
import sys
import threading
import time

CHAIN = """
import os, sys
sys.path.insert(0, {folder!r})
from target_odd_times import enter
def level_{level}():
    enter({level} + 1, {gate!r})
level_{level}()
"""


def enter(level, gate):
    if level == 3:
        os.write(gate[1], b"x")
        time.sleep(1000)
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
    else:
        import _xxsubinterpreters as interpreters
    code = CHAIN.format(level=level, folder=os.path.dirname(os.path.abspath(__file__)), gate=gate)
    if sys.version_info >= (3, 13):
        interpreters.run_string(interpreters.create("legacy"), code)
    elif sys.version_info >= (3, 10):
        interpreters.run_string(interpreters.create(isolated=False), code)
    else:
        interpreters.run_string(interpreters.create(), code)


def ready():
    os.write(1, b"ready\n")


def short_lived():
    time.sleep(0.003)


def reuse():
    ready()
    while True:
        one = threading.Thread(target=short_lived)
        one.start()
        one.join()


def goodbye():
    ready()
    time.sleep(1000)


def chains():
    gate = os.pipe()
    for _ in range(2):
        threading.Thread(target=enter, args=(1, gate), daemon=True).start()
    for _ in range(2):
        os.read(gate[0], 1)
    ready()
    time.sleep(1000)


def main(case):
    if case == "exit_handler":
        atexit.register(goodbye)
    elif case == "finalized":
        kept.append(ctypes.CDLL(sys.argv[2]))
    else:
        {"reuse": reuse, "chains": chains}[case]()


kept = []
if __name__ == "__main__":
    main(sys.argv[1])
