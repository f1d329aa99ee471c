"""Python code evaluated in the target: its answer goes to the caller and to nobody else."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, version_of, wait_until
from users import User

StartTarget = Callable[..., Target]


def test_the_value_is_printed_as_repr(probing: Cli, busy: Target) -> None:
    assert probing("-t", busy.pid, "eval", "'a' + 'b'").expect(0).stdout == "'ab'\n"


def test_nothing_is_printed_for_none(probing: Cli, busy: Target) -> None:
    assert probing("-t", busy.pid, "eval", "None").expect(0).stdout == ""
    assert probing("-t", busy.pid, "eval", "x = 1").expect(0).stdout == ""


def test_several_lines_run_and_the_last_expression_is_the_value(probing: Cli, busy: Target) -> None:
    code = "total = 0\nfor i in range(4):\n    total += i\ntotal"
    assert probing("-t", busy.pid, "eval", code).expect(0).stdout == "6\n"


def test_output_comes_back_to_the_caller(probing: Cli, busy: Target) -> None:
    answer = probing("-t", busy.pid, "eval", "import sys\nprint('out')\nprint('err', file=sys.stderr)")
    answer.expect(0)
    assert answer.stdout == "out\n"
    assert answer.stderr == "err\n"
    busy.expect_unharmed()


@pytest.mark.parametrize("stream", ["usual", "rigid"])
def test_threads_that_print_survive_evaluations(
    probing: Cli, target: StartTarget, python: str, stream: str
) -> None:
    """print() does not own the stream it uses: ours must not be freed while somebody is in it. Where its
    methods can be replaced there is none of ours."""
    job = target("prints", stream, python=python, PYTHONMALLOC="debug")  # what is freed is overwritten
    probing("-t", job.pid, "inject").expect(0)
    for i in range(10):
        code = f"import time; time.sleep(0.02); print({i})"
        assert probing("-t", job.pid, "eval", code).expect(0).stdout == f"{i}\n"
    original = "sys.stdout" if stream == "usual" else "sys.stdout._original"
    kind = probing("-t", job.pid, "eval", f"import sys; type({original}).__name__")
    assert kind.stdout == ("'Slow'\n" if stream == "usual" else "'Rigid'\n")
    probing("-t", job.pid, "eject").expect(0)
    job.expect_progress("loops")


def test_a_program_that_is_leaving_is_not_printed_into(
    probing: Cli, target: StartTarget, python: str, tmp_path: Path
) -> None:
    """3.8 closes its queue of calls early, and prints when one is added."""
    go, done = tmp_path / "go", tmp_path / "done"
    job = target("leaves", python=python, GO=str(go), DONE=str(done))
    probing("-t", job.pid, "inject").expect(0)
    go.touch()
    job.expect_progress("leaving")
    for _ in range(5):
        assert probing("-t", job.pid, "eval", "1+1").expect(0).stdout == "2\n"
    done.touch()
    assert job.process.wait(10) == 0
    assert job.stderr_path.read_text() == ""


def test_the_thread_that_keeps_the_gil_is_named(probing: Cli, target: StartTarget, python: str) -> None:
    if python.endswith("t"):
        pytest.skip("without a GIL nobody holds it")
    job = target("gil_held", python=python)
    probing("-t", job.pid, "inject").expect(0)
    wait_until(lambda: job.report()["held"], 10, "the other thread has the GIL")
    answer = probing("-t", job.pid, "eval", "--timeout", "0.5", "1 + 1")
    assert answer.code == 5, answer
    assert "hold_for_ever" in answer.stderr and "<module>" not in answer.stderr, answer
    job.expect_unharmed()


def test_a_raised_exception_is_exit_code_1_with_its_traceback(probing: Cli, busy: Target) -> None:
    answer = probing("-t", busy.pid, "eval", "def f():\n    return 1 / 0\nf()")
    assert answer.code == 1
    assert "ZeroDivisionError: division by zero" in answer.stderr
    assert "line 2, in f" in answer.stderr
    assert answer.stdout == ""
    busy.expect_progress()


def test_a_syntax_error_is_exit_code_1(probing: Cli, busy: Target) -> None:
    answer = probing("-t", busy.pid, "eval", "1 +")
    assert answer.code == 1
    assert "SyntaxError" in answer.stderr


@pytest.mark.parametrize(
    "code", ["raise SystemExit(3)", "import sys; sys.exit(3)", "raise KeyboardInterrupt"]
)
def test_code_cannot_end_the_job(probing: Cli, busy: Target, code: str) -> None:
    assert probing("-t", busy.pid, "eval", code).code == 1
    busy.expect_progress()


@pytest.mark.parametrize(
    "code",
    [
        "import _thread; _thread.interrupt_main()",
        "import signal; signal.alarm(1)",
        "import signal; signal.setitimer(signal.ITIMER_REAL, 0.01)",
        "import signal; signal.setitimer(signal.ITIMER_REAL, 0, 0.01)",
        "import signal, threading; signal.pthread_kill(threading.main_thread().ident, 15)",
        "import os, sys; os.execv(sys.executable, [sys.executable, '-c', ''])",
        "import os, sys; os.execlp('true', 'true')",
    ],
)
def test_what_would_end_the_job_is_refused(probing: Cli, busy: Target, code: str) -> None:
    answer = probing("-t", busy.pid, "eval", code)
    assert answer.code == 1 and "would end the job, and was not done" in answer.stderr, answer
    busy.expect_progress()


def test_a_timer_of_the_job_may_be_taken_back(probing: Cli, busy: Target) -> None:
    code = "import signal; signal.alarm(0), signal.setitimer(signal.ITIMER_REAL, 0)"
    assert probing("-t", busy.pid, "eval", code).expect(0).stdout == "(0, (0.0, 0.0))\n"


def test_a_daemon_that_is_stopped_is_said(user: User) -> None:
    """SIGSTOP, a debugger, a frozen cgroup: no command waits for ever."""
    job = user.probed_target()
    daemon = int(user("status", "--json").expect(0).json["pid"])
    os.kill(daemon, signal.SIGSTOP)
    try:
        answer = user("-t", job.pid, "eval", "1 + 1")
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert answer.code == 5, answer
    assert "probingd does not answer: it is stopped" in answer.stderr, answer
    assert user("-t", job.pid, "eval", "1 + 1").expect(0).stdout == "2\n"


def test_unicode_survives_both_ways(probing: Cli, busy: Target) -> None:
    assert probing("-t", busy.pid, "eval", "'žluť 漢字 🐍'").expect(0).stdout == "'žluť 漢字 🐍'\n"


def test_code_may_come_from_a_file_or_from_stdin(probing: Cli, busy: Target, tmp_path: object) -> None:
    script = f"{tmp_path}/code.py"
    with open(script, "w") as file:
        file.write("1 + 41\n")
    assert probing("-t", busy.pid, "eval", "--file", script).expect(0).stdout == "42\n"
    assert probing("-t", busy.pid, "eval", "-", stdin="2 + 40\n").expect(0).stdout == "42\n"


def test_a_large_value_comes_back_whole(probing: Cli, busy: Target) -> None:
    answer = probing("-t", busy.pid, "eval", "print('x' * 500000)").expect(0)
    assert answer.stdout == "x" * 500000 + "\n"


def test_json_has_value_output_and_outcome(probing: Cli, busy: Target) -> None:
    answer = probing("-t", busy.pid, "eval", "--json", "print('hello')\n1 + 1").expect(0).json
    assert answer["value"] == "2"
    assert answer["stdout"] == "hello\n"


def test_an_endless_evaluation_is_interrupted_at_its_deadline(probing: Cli, busy: Target) -> None:
    answer = probing("-t", busy.pid, "eval", "--timeout", "1", "while True: pass")
    assert answer.code == 5, answer
    assert answer.seconds < 5
    assert probing("-t", busy.pid, "eval", "1 + 1").expect(0).stdout == "2\n"
    busy.expect_progress()


# Python 3.10 never looks for exceptions, signals or other threads in a loop that begins with `try` and calls
# nothing: there it cannot be ended by anything, ^C of its own included.
STUBBORN = {
    "one try": "while True:\n    try:\n        x = abs(1)\n    except BaseException:\n        pass",
    "with a pause": (
        "import time\nwhile True:\n    try:\n        time.sleep(0.01)\n"
        "    except BaseException:\n        pass"
    ),
    "nested": (
        "def inner():\n    try:\n        sum(range(99))\n    except BaseException:\n        pass\n"
        "def outer():\n    while True:\n        try:\n            inner()\n        except BaseException:\n"
        "            continue\n        finally:\n            inner()\n"
        "while True:\n    try:\n        outer()\n    except BaseException as error:\n        kept = error"
    ),
}


@pytest.mark.parametrize("code", STUBBORN.values(), ids=STUBBORN)
def test_code_that_catches_every_exception_is_ended_all_the_same(
    probing: Cli, target: StartTarget, python: str, code: str
) -> None:
    if python.endswith("t"):
        pytest.skip("without a GIL a function of ours would keep the library")
    job = target("busy", python=python)
    probing("-t", job.pid, "inject").expect(0)
    for _ in range(2):
        answer = probing("-t", job.pid, "eval", "--timeout", "0.2", code)
        assert answer.code == 5, answer
        # It is over, and not only answered: the next one runs.
        assert probing("-t", job.pid, "eval", "--timeout", "10", "6 * 7").expect(0).stdout == "42\n"
    probing("-t", job.pid, "eject").expect(0)
    wait_until(lambda: not harness.is_probed(job.pid), 10, "the library is gone")
    job.expect_progress()


def test_code_that_cannot_be_ended_is_named_and_the_probe_stays_once(
    probing: Cli, target: StartTarget
) -> None:
    """A call in C that does not return: whatever is asked says so, and nothing piles up."""
    job = target("busy")
    probing("-t", job.pid, "inject").expect(0)
    before = job.snapshot()
    waits = "def waits_for_ever():\n    import time; time.sleep(9)\nwaits_for_ever()"
    answer = probing("-t", job.pid, "eval", "--timeout", "0.2", waits)
    assert answer.code == 5
    assert "still runs it, for 0 s" in answer.stderr and "waits_for_ever" in answer.stderr, answer
    for _ in range(3):
        refused = probing("-t", job.pid, "eval", "--timeout", "0.2", "1")
        assert refused.code == 5 and "waits_for_ever" in refused.stderr, refused
    tid = re.search(r"Thread (\d+) still runs", refused.stderr)
    assert tid is not None
    stays = probing("-t", job.pid, "eject")
    assert stays.code == 1, stays
    assert "an evaluation still runs in thread " + tid[1] in stays.stderr, stays
    probing("-t", job.pid, "inject").expect(0)  # the one that is there
    after = job.snapshot()
    assert len(after.threads) <= len(before.threads) + 2, "the evaluation and what ends it"
    assert len(after.fds) <= len(before.fds) + 6, (before.fds, after.fds)
    assert after.maps.count("libprobing") == before.maps.count("libprobing")

    def ejected() -> bool:
        return probing("-t", job.pid, "eject").code in (0, 4)

    wait_until(ejected, 20, "the call returns, and the probe goes")
    wait_until(lambda: not harness.is_probed(job.pid), 10, "the library is gone")
    job.expect_progress()


def test_a_probe_that_waits_for_the_gil_leaves_when_it_comes(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    code = (
        "import ctypes, sys, os, time\n"
        "print('ready', flush=True)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
        "ctypes.PyDLL(None).sleep(5)\n"  # with the GIL
        "time.sleep(60)\n"
    )
    job = subprocess.Popen([sys.executable, "-c", code, str(go)], stdout=subprocess.PIPE)
    try:
        assert job.stdout is not None and job.stdout.readline() == b"ready\n"
        probing("-t", job.pid, "inject").expect(0)
        probing("-t", job.pid, "eval", "1").expect(0)
        go.touch()
        held = lambda: probing("-t", job.pid, "eval", "--timeout", "0.1", "1").code == 5  # noqa: E731
        wait_until(held, 10, "the GIL is held")
        answer = probing("-t", job.pid, "eject").expect(0)
        assert "leaves by itself as soon as it comes" in answer.stdout, answer
        assert harness.is_probed(job.pid)
        wait_until(lambda: not harness.is_probed(job.pid), 20, "it leaves by itself")
        wait_until(lambda: len(harness.thread_states(job.pid)) == 1, 10, "no thread is left")
        assert job.poll() is None
    finally:
        job.kill()
        job.communicate()


def test_a_failure_of_our_own_is_not_called_an_interrupt(probing: Cli, target: StartTarget) -> None:
    job = target("busy")
    probing("-t", job.pid, "inject").expect(0)
    broken = "import posix, sys\nsys.kept = posix.getpid\nposix.getpid = None"
    probing("-t", job.pid, "eval", broken).expect(0)
    answer = probing("-t", job.pid, "eval", "1 + 1")
    assert answer.code == 1
    assert "KeyboardInterrupt" not in answer.stderr
    assert "Probing's own code failed in this process (TypeError)" in answer.stderr, answer


def test_a_gil_that_is_never_released_is_said_with_the_thread_that_holds_it(
    probing: Cli, target: StartTarget, python: str
) -> None:
    if not harness.has_gil(python):
        pytest.skip("nobody holds it")
    stuck = target("gil_held", python=python)
    wait_until(lambda: stuck.report()["held"], 30, "the GIL is taken")
    [holder] = set(harness.thread_states(stuck.pid)) - {stuck.pid}
    probing("-t", stuck.pid, "inject").expect(0)
    answer = probing("-t", stuck.pid, "eval", "--timeout", "1", "1 + 1")
    assert answer.code == 5, answer
    assert answer.seconds < 6
    assert "GIL" in answer.stderr
    assert "hold_for_ever (" in answer.stderr, "the stack of the thread that holds it"
    assert re.search(rf"\b{holder}\b", answer.stderr), "not that of another one"


def test_eval_does_not_wait_for_the_switch_interval(probing: Cli, target: StartTarget, python: str) -> None:
    """A busy main thread gives the GIL away every 5 ms; we have it sooner. The best of some, because a
    loaded machine adds to each; bench/ measures the promise itself."""
    busy = target("busy", python=python)
    probing("-t", busy.pid, "inject").expect(0)
    answers = [probing("-t", busy.pid, "eval", "--json", "1 + 1").expect(0) for _ in range(20)]
    assert min(answer.json["duration_us"] for answer in answers) < 5000
    assert min(answer.seconds for answer in answers) < 0.05
    busy.expect_progress()


def test_many_at_once_all_get_their_own_answer(probing: Cli, busy: Target) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: probing("-t", busy.pid, "eval", f"{i} * 1000"), range(40)))
    assert [answer.expect(0).stdout for answer in answers] == [f"{i * 1000}\n" for i in range(40)]
    busy.expect_progress()


def test_a_job_that_never_collects_does_not_grow_by_being_visited(
    probing: Cli, target: StartTarget, python: str
) -> None:
    """Only Python's collector gives classes back, unless it is done for it, and some jobs have none."""
    if version_of(python) < (3, 8):
        pytest.skip("there is no place in this interpreter where streams could wait for the next probe")
    if python.endswith("t"):
        pytest.skip("without a GIL functions are given back by the collector only")
    job = target("busy", python=python)
    blocks = []
    for _ in range(10):
        probing("-t", job.pid, "inject").expect(0)
        harness.wait_for_hooks(probing, job.pid)  # or some visits would be counted with them and some without
        assert harness.rows(probing, "SELECT count(*) FROM python.threads", job.pid)
        code = "import gc, sys; gc.disable(); sys.getallocatedblocks()"
        blocks.append(int(probing("-t", job.pid, "eval", code).expect(0).stdout))
        probing("-t", job.pid, "eject").expect(0)
    # What the job itself holds at that moment varies: the least of the last is compared with the most of the
    # first. It were thousands each time.
    assert min(blocks[-4:]) - max(blocks[:4]) < 300, blocks


def test_what_evaluated_code_leaves_in_the_job_works_when_the_probe_has_gone(
    probing: Cli, target: StartTarget, python: str
) -> None:
    """Of a namespace that is given back at once nothing may be in use: functions keep the names they saw."""
    if python.endswith("t"):
        pytest.skip("without a GIL the library stays, and eject says so")
    job = target("busy", python=python)
    leaves = "import sys\nlimit = 40\ndef answer():\n    return limit + 2\nsys.answer = answer"
    asks = "import sys; sys.answer()"
    for way in ([], ["--frame", 0]):
        probing("-t", job.pid, "inject").expect(0)
        probing("-t", job.pid, "eval", *way, leaves).expect(0)
        probing("-t", job.pid, "eject").expect(0)
        probing("-t", job.pid, "inject").expect(0)
        assert probing("-t", job.pid, "eval", asks).expect(0).stdout == "42\n"
        probing("-t", job.pid, "eject").expect(0)
    job.expect_progress()


def test_a_job_whose_main_thread_sleeps_is_left_without_a_trace(
    probing: Cli, target: StartTarget, python: str
) -> None:
    """A call that was queued for the main thread would keep our code there for as long as it sleeps."""
    if version_of(python) < (3, 7):
        pytest.skip("without a second thread this Python has no GIL to take")
    if python.endswith("t"):
        pytest.skip("without a GIL the library stays, and eject says so")
    job = target("sleep", python=python)
    for _ in range(3):
        probing("-t", job.pid, "inject").expect(0)
        probing("-t", job.pid, "eval", "6 * 7").expect(0)
        assert "stays mapped" not in probing("-t", job.pid, "eject").expect(0).stdout
        assert "probing" not in Path(f"/proc/{job.pid}/maps").read_text()
