"""Fixtures of the browser tests: Debian's chromium, and flame graphs of a real recording."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(os.environ.get("PROBING_BIN", ROOT / "build/release/bin")).resolve()
RESULTS = ROOT / "build/e2e"  # screenshots, to be looked at


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        yield chromium
        chromium.close()


@pytest.fixture(params=["light", "dark"])
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page that fails the test when something is wrong in its console."""
    page = browser.new_page(color_scheme=request.param, viewport={"width": 1280, "height": 900})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
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
            subprocess.run(command, check=True, timeout=60)
        return files
    finally:
        target.kill()
        target.wait()
