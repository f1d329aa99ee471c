"""Fixtures of the integration tests. The words they are made of are in harness.py."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import harness
import pytest
import serving
from terminal import PROMPT, Terminal
from users import User, free_port, uids
from zygote import ForkedTarget, Zygote

HARD_TIMEOUT_SECONDS = 60
# What is promised for Python 3.4 and 3.5, when PROBING_PYTHONS names some; other targets are Python 3.6.
FOR_OLD_PYTHONS = ("test_stacks", "test_locals", "test_eval", "test_inject", "test_leaving")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """No test hangs: after its time is up it fails, with the line where it hung."""
    marker = item.get_closest_marker("slow")
    seconds = marker.args[0] if marker else HARD_TIMEOUT_SECONDS

    def on_alarm(signum: int, frame: FrameType | None) -> None:
        pytest.fail(f"hard timeout after {seconds} s")

    previous = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(int(seconds * harness.PATIENCE))
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long forms run only when asked for: `make soak`. Marks that tools/run_tests.py needs are noted."""
    missing = harness.missing_pythons()
    old = [one for one in harness.named_pythons() if harness.version_of(one) < (3, 6)]
    for item in items:
        for value in item.callspec.params.values() if hasattr(item, "callspec") else ():
            if isinstance(value, str) and value in missing:
                reason = f"no Python {value} on this machine (pyenv install {value})"
                item.add_marker(pytest.mark.skip(reason=reason))
            if isinstance(value, str) and value in old and item.path.stem not in FOR_OLD_PYTHONS:
                item.add_marker(
                    pytest.mark.skip(reason="of Python 3.4 and 3.5 only stacks and eval are tested")
                )
        if marker := item.get_closest_marker("load_dependent"):
            item.user_properties.append(("load_dependent", marker.args[0]))
    if os.environ.get("PROBING_SOAK") != "1":
        dropped = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Tells tools/run_tests.py, by way of the JUnit file, that a target was harmed."""
    if call.excinfo is not None and call.excinfo.errisinstance(harness.Harm):
        item.user_properties.append(("harm", str(call.excinfo.value)[:200]))
    return (yield)


@pytest.fixture(autouse=True)
def no_target_is_harmed() -> Iterator[None]:
    """The first to be set up, so the last to look: when the targets of the test have been ended."""
    yield
    harmed = []
    for one in list(harness.Target.unchecked):
        one.harm = one.harm or one.find_harm()
        if one.harm:
            harmed.append(one.harm)
        if one.harm or not one.alive():
            harness.Target.unchecked.remove(one)
    if harmed:
        raise harness.Harm("; ".join(harmed))


@pytest.fixture(scope="session", autouse=True)
def stop_daemons() -> Iterator[list[Path]]:
    """Ends every probingd that the tests started, whoever's it is. Yields the folders to look in."""
    bin_dirs = [harness.BIN]
    before = harness.daemons(bin_dirs)
    yield bin_dirs
    for pid in harness.daemons(bin_dirs) - before:
        harness.stop_process(pid)


@pytest.fixture(scope="session")
def probing() -> harness.Cli:
    if not (harness.BIN / "probing").exists():
        pytest.fail(f"no {harness.BIN}/probing: run `make build`, or set PROBING_BIN")
    return harness.Cli(harness.BIN)


@pytest.fixture(scope="session")
def public_probing(probing: harness.Cli, stop_daemons: list[Path]) -> Iterator[harness.Cli]:
    """The same programs where other users can run them."""
    folder = harness.copy_for_everybody()
    stop_daemons.append(folder)
    yield harness.Cli(folder)
    for pid in harness.daemons([folder]):
        harness.stop_process(pid)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("compiled")
    return lambda name: harness.compile_target(name, folder)


StartTarget = Callable[..., harness.Target]


@pytest.fixture
def target(tmp_path: Path, compiled: Callable[[str], Path]) -> Iterator[StartTarget]:
    """Starts targets: target("busy"), target("busy", python="3.8.18"), target("vectors", c=True).

    `python` is a version or the path of an interpreter.

    What they must be like at the end is said at harness.Target.
    """
    started: list[harness.Target] = []

    def start(
        name: str,
        *arguments: object,
        python: str | None = None,
        c: bool = False,
        prefix: list[str] | None = None,
        **environment: str,
    ) -> harness.Target:
        if c:
            command = [str(compiled(name))]
        else:
            own = sys.executable if python is None else python
            interpreter = harness.pythons().get(own, Path(own))
            command = [str(interpreter), str(harness.TARGETS / f"target_{name}.py")]
        command = [*(prefix or []), *command, *map(str, arguments)]
        started.append(harness.Target(command, tmp_path, environment))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture(scope="session")
def torch_zygote() -> Iterator[Zygote]:
    zygote = Zygote()
    yield zygote
    zygote.close()


@pytest.fixture
def forked(tmp_path: Path, torch_zygote: Zygote) -> Iterator[StartTarget]:
    """Starts targets that need torch, from a process that has it: forked("torch_kinds", "plain")."""
    started: list[ForkedTarget] = []

    def start(name: str, *arguments: object, **environment: str) -> harness.Target:
        command = [str(harness.TARGETS / f"target_{name}.py"), *map(str, arguments)]
        started.append(ForkedTarget(torch_zygote, command, tmp_path, environment))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def busy(probing: harness.Cli, target: Callable[..., harness.Target]) -> harness.Target:
    """A job that computes without a pause, with the probe in it."""
    started = target("busy")
    probing("-t", started.pid, "inject").expect(0)
    return started


@pytest.fixture
def training(probing: harness.Cli, target: Callable[..., harness.Target]) -> Callable[..., harness.Target]:
    """Starts target_training.py, with the probe in it."""

    def start(python: str | None = None) -> harness.Target:
        job = target("training", python=python) if python else target("training")
        probing("-t", job.pid, "inject").expect(0)
        return job

    return start


@pytest.fixture
def terminal(probing: harness.Cli, tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Runs a command in a terminal of its own and waits for its prompt."""
    opened: list[Terminal] = []

    def open_one(prompt: str, *command: object) -> Terminal:
        opened.append(Terminal(*command, XDG_STATE_HOME=str(tmp_path)))
        opened[-1].expect(prompt)
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def address(probing: harness.Cli) -> Iterator[str]:
    """Where the daemon of whoever runs the tests is served."""
    address = f"127.0.0.1:{free_port()}"
    probing("serve", "--listen", address, "--background").expect(0)
    yield address
    probing("serve", "--listen", address, "--close")


@pytest.fixture(params=["here", "over TCP"])
def repl(
    request: pytest.FixtureRequest, probing: harness.Cli, terminal: Callable[..., Terminal]
) -> Callable[..., Terminal]:
    """Opens sessions; repl(target) waits for the first prompt."""

    def open_one(target: harness.Target, *arguments: object) -> Terminal:
        name = str(target.pid)
        if request.param != "here":
            name = f"{request.getfixturevalue('address')}/{name}"
        return terminal(PROMPT, "-t", name, "repl", *arguments)

    return open_one


@pytest.fixture(params=harness.wanted_pythons())
def python(request: pytest.FixtureRequest) -> str:
    """Each Python that is supported in turn; one that this machine has not got is a skip by its name."""
    return request.param


@pytest.fixture
def user(public_probing: harness.Cli) -> Iterator[User]:
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    somebody = User(public_probing, next(uids))
    yield somebody
    somebody.leave()


@pytest.fixture(scope="module")
def served(public_probing: harness.Cli) -> Iterator[serving.Served]:
    """One user with one daemon, one target and one address: nobody changes any of it."""
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    user = User(public_probing, next(uids))
    target = user.probed_target(serving.THREE_THREADS)
    port = free_port()
    user("serve", "--listen", f"127.0.0.1:{port}", "--background").expect(0)
    yield serving.Served(user, port, target.pid, user("token").expect(0).stdout.strip())
    assert target.poll() is None, "the target lives through all of it"
    user.leave()
