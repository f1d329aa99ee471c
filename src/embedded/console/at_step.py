# Code that runs at the end of an optimizer's step: `eval --at step`, `%at step`. Runs in the target. Python
# 3.6 syntax, built-in modules only.
#
# A hook of torch, which is there for this one evaluation, holds the thread that has made the step, for
# probing.eval.step_hold at most. The code runs on our thread meanwhile, as always, and what it sees is of one
# moment: gradients are complete, parameters are updated, and no backward pass is under way.
import _thread
import posix
import sys
import time

from ..core.alone import alone, undos
from ..core.describe import Refused
from ..core.still import NOT_NOW, POLL, loaded_torch, when_outside, when_still
from .evaluate import at_end
from .session import stack_of, thread_names

STEP_HOOKS = "_global_optimizer_post_hooks"  # of torch.optim.optimizer: id → function
STEP_KEY = "probing.at_step"
STEP_HOLD = 1.0  # seconds, when it was not said
STEP_POLL = 0.02  # an interrupt arrives between two of them
MOST_UNFIT = 0.05  # seconds for other threads to end what changes gradients
MOST_REMOVAL = 0.5  # seconds for a moment in which no thread goes through the hooks
MOST_SHOWN_FRAMES, MOST_SHOWN_LINES = 4, 20
WENT_ON = (
    "probing: the job's thread went on before the code was done (probing.eval.step_hold: %g s): "
    "what the code saw after that is not of one moment\n"
)


class NoStep(Refused):
    """No optimizer has made a step in time."""


def step_hooks():
    torch = loaded_torch()
    if torch is None:
        raise Refused("--at step needs PyTorch, and this process has not imported torch")
    if hasattr(when_outside, "__code__"):
        raise Refused("--at step needs a Python with a GIL: without one nothing orders what threads do")
    hooks = getattr(sys.modules.get("torch.optim.optimizer"), STEP_HOOKS, None)
    if not isinstance(hooks, dict):
        raise Refused("this torch has no hooks for the steps of all optimizers; 2.0 and later have them")
    return hooks


def make_step_hook(armed, reached, go_on, left, seconds):
    """What the job's thread calls. It may outlive us, and a forked child may have it, too."""
    pid = posix.getpid()

    def step_ended(*_):
        if posix.getpid() != pid or not armed.acquire(False):
            return
        held = False
        try:
            reached.release()
            held = go_on.acquire(True, seconds)  # signal handlers of the job run meanwhile
        finally:
            if not held:
                left.append(True)

    return alone(step_ended)


class AtStep(object):
    """One evaluation's wait for a step, and the thread that is held then."""

    def __init__(self, hooks, seconds):
        self.hooks, self.seconds = hooks, seconds
        self.go_on = self.armed = self.left = None
        self.unfit = 0  # steps that were made within a backward pass

    def put(self, hook):
        """A thread that goes through the hooks must not see their number change."""
        while STEP_KEY not in self.hooks:
            when_outside(NOT_NOW, STEP_HOOKS, self.hooks.__setitem__, STEP_KEY, hook)
            if STEP_KEY not in self.hooks:
                time.sleep(POLL)
        self.hooks[STEP_KEY] = hook

    def reach(self):
        """Returns once a thread waits at the end of a step, and no other one changes gradients."""
        while True:
            self.armed, reached, self.go_on = [_thread.allocate_lock() for _ in range(3)]
            reached.acquire()
            self.go_on.acquire()
            self.left = []
            self.put(make_step_hook(self.armed, reached, self.go_on, self.left, self.seconds))
            while not reached.acquire(True, STEP_POLL):
                pass
            until = time.perf_counter() + MOST_UNFIT
            while time.perf_counter() < until:
                if when_still(NOT_NOW, bool, 0) is not NOT_NOW:
                    return
                time.sleep(POLL)
            self.unfit += 1  # an optimizer that steps within the pass: the next may be another one's
            self.let_go()

    def let_go(self):
        go_on, self.go_on = self.go_on, None
        if go_on is not None:
            self.armed.acquire(False)  # from now on no thread stops there
            go_on.release()

    def undo(self):
        """However the evaluation ended. First the thread goes on, then the hook goes."""
        try:
            self.let_go()
            if STEP_KEY in self.hooks:
                self.hooks[STEP_KEY] = eval("lambda *_: None", {})
            until = time.perf_counter() + MOST_REMOVAL
            while STEP_KEY in self.hooks and time.perf_counter() < until:
                if when_outside(NOT_NOW, STEP_HOOKS, self.hooks.pop, STEP_KEY, None) is NOT_NOW:
                    time.sleep(POLL)
        except Exception:
            pass

    def note(self):
        return WENT_ON % self.seconds if self.left else ""

    def why_not(self):
        from .magics import where

        lines = ["no optimizer has ended a step within the time limit"]
        if self.unfit:
            lines[0] += ", except for %d within a backward pass" % self.unfit
        lines[0] += ". Nothing was run. What the job does now:"
        for ident, (tid, name) in sorted(thread_names().items(), key=lambda item: str(item[1])):
            frames = " < ".join(where(frame) for frame in stack_of(ident)[:MOST_SHOWN_FRAMES])
            lines.append('  Thread %s "%s": %s' % (tid or ident, name, frames or "no Python code"))
        return "\n".join(lines[:MOST_SHOWN_LINES])


def begin_at_step(seconds):
    """Returns at the end of a step; the thread that made it goes on when the evaluation is over."""
    at_step = AtStep(step_hooks(), float(seconds or STEP_HOLD))
    undos.append(at_step.undo)
    at_end.append(at_step.note)
    try:
        at_step.reach()
    except KeyboardInterrupt:
        raise NoStep(at_step.why_not()) from None
