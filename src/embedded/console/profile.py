# `probing profile`: torch's own profiler, switched on in a job that runs, and off again. Runs in the target.
# Python 3.6 syntax, built-in modules only.
#
# It is started and stopped on our thread while the thread that has just made a step waits at the end of it,
# as for `eval --at step`; in between that thread only notes when its steps end. What torch has recorded goes
# to a file without a name, which probingd reads. Kineto would print into the job: quiet_kineto() (kineto.h)
# is why it does not.
import _thread
import atexit
import posix
import sys
import time

from ..core.alone import alone, undos
from ..core.describe import Refused
from ..core.still import NOT_NOW, POLL, loaded_torch, when_outside
from ..native import quiet_kineto
from .at_step import STEP_HOLD, STEP_HOOKS, NoStep
from .session import leaving

PROFILE_KEY = "probing.profile"
QUIET_KINETO = 100  # above all of its severities: kineto.h
PROFILE_PLACES = ("/tmp", "/dev/shm", "/var/tmp")
PROFILE_POLL = 0.02  # an interrupt arrives between two of them
FIRST_STEP = 3.0  # seconds to wait for the end of a step, when it is seconds that were asked for
LAST_STEP = 2.0  # seconds after the time is over, in which a step may end
MOST_PROFILE_REMOVAL = 0.5


def resident_bytes():
    fd = posix.open("/proc/self/statm", posix.O_RDONLY)
    try:
        return int(posix.read(fd, 200).split()[1]) * 4096
    finally:
        posix.close(fd)


def make_profile_hook(state, armed, reached, go_on, now, hold):
    """What the job's thread calls when an optimizer has made a step. It may outlive us, and a forked child
    may have it, too. Steps are those of one optimizer: the first that makes one. `state` keeps all keys."""
    pid = posix.getpid()

    def step_ended(optimizer, *_):
        if posix.getpid() != pid:
            return
        at = now()
        if at < state["from"]:
            return
        if state["owner"] is None:
            state["owner"] = id(optimizer)
        if state["owner"] != id(optimizer):
            return
        state["times"].append(at)
        if (len(state["times"]) < state["goal"] and at < state["until"]) or not armed.acquire(False):
            return
        held = False
        try:
            reached.release()
            held = go_on.acquire(True, hold)  # signal handlers of the job run meanwhile
        finally:
            if not held:
                state["left"] = True

    return alone(step_ended)


def make_yielding(original, yielded):
    """Stands for a function with which the job starts a profiler of its own: ours ends first."""

    def start(*args, **kwargs):
        yielded()
        return original(*args, **kwargs)

    return alone(start)


class Recording(object):
    """One profile: the hook that sees steps, and torch's profiler while it is on."""

    def __init__(self, torch, options):
        self.torch, self.options = torch, options
        self.autograd = torch._C._autograd
        self.profiler = sys.modules.get("torch.autograd.profiler")
        self.hooks = getattr(sys.modules.get("torch.optim.optimizer"), STEP_HOOKS, None)
        self.armed, self.reached, self.go_on, self.turn = [_thread.allocate_lock() for _ in range(4)]
        for lock in (self.armed, self.reached, self.go_on):
            lock.acquire()
        self.state = {"owner": None, "from": 0, "goal": 1, "until": float("inf"), "times": [], "left": False}
        self.is_on = False
        self.result = self.ended_by = self.severity = None
        self.stand_ins = []

    def check(self):
        config = getattr(self.torch._C, "_profiler", None)
        experimental = getattr(config, "_ExperimentalConfig", None)
        if (
            self.profiler is None
            or experimental is None
            or "profile_all_threads" not in experimental.__init__.__doc__
        ):
            raise Refused(
                "profile needs torch 2.6 or later, whose profiler sees all threads; this one is %s"
                % (getattr(self.torch, "__version__", "older"))
            )
        if getattr(self.profiler, "_is_profiler_enabled", False) or self.autograd._profiler_enabled():
            raise Refused(
                "a profiler of torch is on in the job already: two at a time would spoil both. Try again "
                "when it is off"
            )
        if not isinstance(self.hooks, dict):
            self.hooks = None

    def config(self):
        on = self.options
        types = self.torch._C._profiler
        experimental = types._ExperimentalConfig(profile_all_threads=True)
        return types.ProfilerConfig(
            types.ProfilerState.KINETO,
            on.get("shapes") == "1",
            False,
            on.get("stacks") == "1",
            False,
            on.get("stacks") == "1",
            experimental,
            "",
        )

    def start(self):
        self.check()
        activities = self.autograd._supported_activities()
        self.severity = quiet_kineto(None)
        if self.severity is None:
            raise Refused(
                "this build of torch has no switch for what its profiler prints, and nothing of ours may "
                "appear in the job's output"
            )
        try:
            self.autograd._prepare_profiler(self.config(), activities)
            level = quiet_kineto(None)  # its first use sets what holds from then on
            self.severity = self.severity if level == QUIET_KINETO else level
            self.autograd._enable_profiler(self.config(), activities)
        except BaseException:
            quiet_kineto(self.severity)
            raise
        self.is_on = True
        atexit.register(self.job_ends)  # torch's profiler does not survive the interpreter
        self.profiler._is_profiler_enabled = True
        self.guard()

    def guard(self):
        for name in ("_prepare_profiler", "_enable_profiler"):
            original = vars(self.profiler).get(name)
            if original is not None:
                stand_in = make_yielding(
                    original, lambda: self.stop("the job has started a profiler of its own")
                )
                setattr(self.profiler, name, stand_in)
                self.stand_ins.append((name, stand_in, original))

    def stop(self, reason):
        """On any thread; once."""
        with self.turn:
            if not self.is_on:
                return
            self.is_on = False
            self.ended_by = reason
            atexit.unregister(self.job_ends)
            for name, stand_in, original in self.stand_ins:
                if vars(self.profiler).get(name) is stand_in:
                    setattr(self.profiler, name, original)
            del self.stand_ins[:]
            self.profiler._is_profiler_enabled = False
            try:
                self.result = self.autograd._disable_profiler()
            finally:
                quiet_kineto(self.severity)

    def job_ends(self):
        self.stop("the job has ended")

    def put_hook(self, until):
        """A thread that goes through the hooks must not see their number change."""
        hold = float(self.options.get("step_hold") or STEP_HOLD)
        hook = make_profile_hook(self.state, self.armed, self.reached, self.go_on, time.time_ns, hold)
        while PROFILE_KEY not in self.hooks:
            when_outside(NOT_NOW, STEP_HOOKS, self.hooks.__setitem__, PROFILE_KEY, hook)
            if PROFILE_KEY not in self.hooks:
                if time.time() > until:
                    raise self.no_step()
                time.sleep(POLL)
        self.hooks[PROFILE_KEY] = hook

    def wait_for_step(self, until):
        """True when a thread waits at the end of the step that was meant; False when it is too late, or the
        job has ended the profile."""
        self.state["left"] = False
        self.armed.release()
        allowed = resident_bytes() + float(self.options.get("memory_limit") or "inf")
        while not self.reached.acquire(True, PROFILE_POLL):
            if time.time() > until or (self.ended_by and not self.is_on):
                break
            if self.is_on and resident_bytes() > allowed:
                self.stop("memory")
                break
        else:
            return True
        # From here on no thread stops there; one that has just done so goes on.
        if not self.armed.acquire(False):
            self.reached.acquire()
            self.go_on.release()
        return False

    def let_go(self):
        self.go_on.release()
        if self.state["left"]:
            self.go_on.acquire(False)

    def undo(self):
        """However the evaluation ended: the thread goes on, the profiler is off, the hook goes."""
        try:
            self.stop("interrupted")
        except Exception:
            pass
        try:
            self.state["from"] = float("inf")
            self.armed.acquire(False)
            if self.go_on.locked():
                self.go_on.release()
            self.result = None
            if self.hooks is None or PROFILE_KEY not in self.hooks:
                return
            self.hooks[PROFILE_KEY] = eval("lambda *_: None", {})
            until = time.time() + MOST_PROFILE_REMOVAL
            while PROFILE_KEY in self.hooks and time.time() < until:
                if when_outside(NOT_NOW, STEP_HOOKS, self.hooks.pop, PROFILE_KEY, None) is NOT_NOW:
                    time.sleep(POLL)
        except Exception:
            pass

    def no_step(self):
        return NoStep(
            "no optimizer has ended a step within the time limit, so nothing was recorded: "
            "`--seconds S` needs no steps"
        )

    def record(self):
        """The times at which steps ended, the first being that at which it began."""
        steps = int(self.options.get("steps") or 0)
        seconds = float(self.options.get("seconds") or 0)
        patience = float(self.options.get("patience") or 60)
        self.state["from"] = int(self.options.get("from_ns") or 0)
        begun = time.time()
        if self.hooks is not None:
            self.put_hook(begun + patience)
        at_step = self.hooks is not None and self.wait_for_step(begun + (patience if steps else FIRST_STEP))
        if steps and not at_step:
            raise self.no_step()
        del self.state["times"][:-1]
        try:
            self.start()
            if not at_step:
                self.state["times"][:] = [time.time_ns()]
            until = time.time() + (seconds or patience)
            self.state["goal"] = 1 + steps if steps else sys.maxsize
            self.state["until"] = float("inf") if steps else until * 1e9
        finally:
            if at_step:
                self.let_go()
        if self.hooks is None:
            while time.time() < until and self.is_on:
                time.sleep(PROFILE_POLL)
            at_step = False
        else:
            at_step = self.wait_for_step(until + (LAST_STEP if seconds and at_step else 0))
        try:
            self.stop("done" if at_step or not steps else "the time limit")
        finally:
            if at_step:
                self.let_go()
        self.state["from"] = float("inf")
        return list(self.state["times"])

    def save(self):
        severity = quiet_kineto(None)
        try:
            return nameless_file("trace.json", self.result.save)
        finally:
            quiet_kineto(severity)


def nameless_file(name, write):
    """Descriptor of a file that write(path) has made; nothing has a name any more then."""
    for place in PROFILE_PLACES:
        folder = "%s/probing-profile-%d-%d" % (place, posix.getpid(), time.time_ns())
        path = folder + "/" + name
        try:
            posix.mkdir(folder, 0o700)
        except OSError:
            continue
        try:
            write(path)
            fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
            if posix.fstat(fd).st_size:
                return fd
            posix.close(fd)
        except Exception:
            continue
        finally:
            for end, what in ((posix.unlink, path), (posix.rmdir, folder)):
                try:
                    end(what)
                except OSError:
                    pass
    raise Refused(
        "torch's %s could not be written: neither %s has room for it"
        % (name.partition(".")[0], ", nor ".join(PROFILE_PLACES))
    )


kept_files = {}  # what was recorded → [number of the last one, descriptor of its file or None]


def release_file(what):
    if what in kept_files and kept_files[what][1] is not None:
        posix.close(kept_files[what][1])
        kept_files[what][1] = None


def release_files():
    for what in kept_files:
        release_file(what)


def keep_file(what, fd):
    """The number of this one: 1, 2, …"""
    if not kept_files:
        leaving.append(release_files)
    kept_files[what] = [kept_files.get(what, (0,))[0] + 1, fd]
    return kept_files[what][0]


def talk_profile(source, options):
    """One profile; the answer is JSON. probingd asks once more, with release=1, when it has the file."""
    if options.get("release") == "1":
        return release_file("profile")
    torch = loaded_torch()
    if torch is None:
        raise Refused("profile needs PyTorch, and this process has not imported torch")
    if hasattr(when_outside, "__code__"):
        raise Refused("profile needs a Python with a GIL: without one nothing orders what threads do")
    release_file("profile")
    recording = Recording(torch, options)
    recording.check()
    undos.append(recording.undo)
    times = recording.record()
    fd = recording.save()
    return '{"profile": %d, "fd": %d, "ended_by": "%s", "times": [%s]}' % (
        keep_file("profile", fd),
        fd,
        recording.ended_by,
        ", ".join(map(str, times)),
    )
