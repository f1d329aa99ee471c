# How code of ours is made to end: evaluator_work.cc calls these. Runs in the target, on a thread of the
# probe. Python 3.6 syntax, built-in modules only.


def settle():
    """Executes enough for an asynchronous exception that is under way to arrive here."""
    for _ in range(1000):
        pass


class Ended(BaseException):
    """Ends code that goes on after KeyboardInterrupt: see EndAgain() in evaluator_work.cc."""


def arm_ended(again):
    Ended.__init__ = again
    return Ended


def disarm_ended():
    del Ended.__init__
