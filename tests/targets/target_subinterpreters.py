"""A thread that runs code in a subinterpreter, called from a function of the main one."""

import sys

if sys.version_info >= (3, 13):
    import _interpreters as interpreters
else:
    import _xxsubinterpreters as interpreters

CODE = """
import os
import time

def inside():
    os.write(1, b"ready " + str(os.getpid()).encode() + b"\\n")
    time.sleep(1000)

inside()
"""


def enter():
    interpreters.run_string(interpreters.create(), CODE)


enter()
