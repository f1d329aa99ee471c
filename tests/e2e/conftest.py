"""Fixtures of the browser tests: Debian's chromium, flame graphs of a recording, the page of probingd."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ.get("PROBING_BIN", ROOT / "build/release/bin")).resolve()
RESULTS = ROOT / "build/e2e"  # screenshots, to be looked at
SHOP = ("handle (", "rank (", "合計")  # functions of target_shop.py that tests look for
MOST_RECORDINGS = 10
HOSTILE = "<img src=x onerror=alert(1)>"
PATIENCE_MS = 30_000  # of what is waited for, on a machine that does other things, too
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        yield chromium
        chromium.close()


def is_problem(message: ConsoleMessage) -> bool:
    """What the API refuses is told by the page itself; everything else should be silent."""
    return message.type == "error" and "/api/v1/" not in message.location.get("url", "")


@pytest.fixture
def theme() -> str:
    """Tests about colours take another one, too: @BOTH_THEMES."""
    return "light"


BOTH_THEMES = pytest.mark.parametrize("theme", ["light", "dark"])


@pytest.fixture
def page(browser: Browser, theme: Literal["light", "dark"]) -> Iterator[Page]:
    """A page that fails the test when something is wrong in its console."""
    page = browser.new_page(color_scheme=theme, viewport={"width": 1280, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if is_problem(message) else None)
    yield page
    page.close()
    assert problems == []


@pytest.fixture(scope="session")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A flame graph of a Python program with a worker and idle threads, native frames too."""
    folder = tmp_path_factory.mktemp("graphs")
    command = ["python", "target_shop.py"]
    target = subprocess.Popen(
        command, executable=sys.executable, cwd=ROOT / "tests/targets", stdout=subprocess.PIPE
    )
    try:
        assert target.stdout is not None and target.stdout.readline() == b"ready\n"
        files = {}
        for suffix in ("svg", "html"):
            files[suffix] = folder / f"graph.{suffix}"
            options = ["-d", "2", "--native", "--idle", "--threads", "-o", str(files[suffix])]
            command = [str(BIN / "probing"), "-t", str(target.pid), "flamegraph", *options]
            for _ in range(MOST_RECORDINGS):  # on a busy machine not everything runs within two seconds
                subprocess.run(command, check=True, timeout=60)
                if suffix != "svg" or all(name in files[suffix].read_text() for name in SHOP):
                    break
        files["heatmap"] = folder / "lines.html"
        options = ["-d", "1", "-f", "heatmap", "--idle", "-o", str(files["heatmap"])]
        command = [str(BIN / "probing"), "-t", str(target.pid), "record", *options]
        subprocess.run(command, check=True, timeout=60)
        return files
    finally:
        target.kill()
        target.wait()


# ── the web page ─────────────────────────────────────────────────────────────────────────────


def probing(*arguments: object) -> str:
    command = [str(BIN / "probing"), *map(str, arguments)]
    return subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stdout


def until(page: Page, script: str, seconds: float = 30) -> None:
    """wait_for_function() evaluates text in the page, which its security policy forbids."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(script):
        assert time.monotonic() < deadline, f"not within {seconds} s: {script}"
        page.wait_for_timeout(50)


@contextlib.contextmanager
def served() -> Iterator[str]:
    """Where probingd serves the page. PROBING_SITE names another address, while developing."""
    if "PROBING_SITE" in os.environ:
        yield os.environ["PROBING_SITE"]
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    probing("serve", "--listen", address, "--background")
    yield f"http://{address}/"
    probing("serve", "--listen", address, "--close")


@contextlib.contextmanager
def program(command: list[object], name: str, cwd: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    """A program to look at; what it complains of is in RESULTS."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / f"{name}.log").open("w") as log:
        process = subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


TORCH = "build/torch-venv/bin/python"
TARGETS = ROOT / "tests/targets"
JOB = "night-run"


@contextlib.contextmanager
def running_job(title: str, ranks: int = 2) -> Iterator[list[int]]:
    """The pids of the ranks of a real training, as torchrun starts them. PROBING_PIDS names those of one that
    runs already, while developing."""
    if "PROBING_PIDS" in os.environ:
        yield [int(pid) for pid in os.environ["PROBING_PIDS"].split(",")]
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    library = str(BIN / "libprobing.so")
    variables = {
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": JOB,
        "OMP_NUM_THREADS": "1",
        "LD_PRELOAD": library,
        "PROBING_LIBRARY": library,
        "PROBING_TORCH_PROFILING": "on",
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    log = (RESULTS / "job.log").open("w")  # it raises an exception on purpose
    started = [
        subprocess.Popen(
            [TORCH, "tests/targets/target_web.py", "python", title],
            cwd=ROOT,  # and so no folder of this machine is in a picture
            stdout=subprocess.PIPE,
            stderr=log,
            env=os.environ | variables | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(ranks)
    ]
    try:
        for each in started:
            assert each.stdout is not None and each.stdout.readline() == b"ready\n"
        yield [each.pid for each in started]
        assert all(each.poll() is None for each in started), "the job must survive being looked at"
    finally:
        for each in started:
            each.kill()
            each.wait()
        log.close()


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    with served() as address:
        yield address


@pytest.fixture(scope="session")
def ranks() -> Iterator[list[int]]:
    with running_job(HOSTILE) as pids:
        yield pids


@pytest.fixture(scope="session")
def job(ranks: list[int]) -> int:
    """Rank 0 of a training that writes rows into the tables which the page shows."""
    return ranks[0]
