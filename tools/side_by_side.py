#!/usr/bin/env python3
"""Runs the integration tests, several files at a time, and writes one JUnit file about all of them.

    side_by_side.py JUNIT [argument of pytest…] [--again NODE…]

Most tests wait for something most of the time. Each file has processes, loopback and /tmp of its own
(tools/apart.sh), so that no two meet in one probingd. Files whose tests are about how long something takes
are run when the others are done. Where nothing can be kept apart (without root) one pytest runs them all.
After --again only these tests are run, one file after the other.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests/integration"
PARTS = ROOT / "build/test-results/integration"
CACHES = ROOT / "build/pytest-cache"
APART = ROOT / "tools/apart.sh"
# What these measure is changed by what runs beside them.
ALONE = frozenset({"test_soak"})
NOTHING_COLLECTED = 5  # an exit code of pytest: -k
AT_ONCE = min(4, os.cpu_count() or 1)


def took_last_time(name: str) -> float:
    """Seconds; of a file that was never run, by its size."""
    try:
        suite = next(ElementTree.parse(PARTS / f"{name}.xml").iter("testsuite"))
        return float(suite.get("time", "0"))
    except (OSError, ElementTree.ParseError, StopIteration):
        return (TESTS / f"{name}.py").stat().st_size / 400


def run_file(name: str, nodes: list[str], arguments: list[str]) -> tuple[int, str]:
    (PARTS / f"{name}.xml").unlink(missing_ok=True)
    command = [str(APART), sys.executable, "-m", "pytest", *(nodes or [f"tests/integration/{name}.py"])]
    command += [f"--junit-xml={PARTS / name}.xml", "-o", f"cache_dir={CACHES / name}", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def file_of(node: str) -> str:
    """Of tests/integration/test_x.py::test_y: test_x."""
    return Path(node.partition("::")[0]).stem


class Runner:
    """Takes files from a queue, the longest first, and shows what each said when it is done."""

    def __init__(self, arguments: list[str], nodes: list[str]) -> None:
        self.arguments = arguments
        self.nodes = nodes
        self.codes: dict[str, int] = {}
        self.lock = threading.Lock()

    def run(self, names: Iterable[str], at_once: int) -> None:
        queue = sorted(names, key=took_last_time)

        def work() -> None:
            while True:
                with self.lock:
                    if not queue:
                        return
                    name = queue.pop()
                began = time.monotonic()
                nodes = [node for node in self.nodes if file_of(node) == name]
                code, output = run_file(name, nodes, self.arguments)
                with self.lock:
                    self.codes[name] = code
                    if code != NOTHING_COLLECTED:
                        print(f"── {name}, {time.monotonic() - began:.0f} s\n{output}", flush=True)

        threads = [threading.Thread(target=work) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def merge(codes: dict[str, int], junit: Path) -> None:
    """One file; a part that died before it could say what failed is a failure by its name."""
    root = ElementTree.Element("testsuites")
    for name, code in sorted(codes.items()):
        part = PARTS / f"{name}.xml"
        if part.exists():
            root.extend(ElementTree.parse(part).iter("testsuite"))
        elif code != NOTHING_COLLECTED:
            suite = ElementTree.SubElement(root, "testsuite", name=name)
            case = ElementTree.SubElement(suite, "testcase", name=name)
            ElementTree.SubElement(case, "error", message=f"pytest ended with {code}")
    ElementTree.ElementTree(root).write(junit, encoding="utf-8")


def main() -> int:
    junit, arguments, nodes = Path(sys.argv[1]), sys.argv[2:], []
    if "--again" in arguments:
        split = arguments.index("--again")
        arguments, nodes = arguments[:split], arguments[split + 1 :]
    if subprocess.run([str(APART)]).returncode != 0:
        command = [sys.executable, "-m", "pytest", f"--junit-xml={junit}", *nodes, *arguments]
        return subprocess.run(command, cwd=ROOT).returncode
    PARTS.mkdir(parents=True, exist_ok=True)
    runner = Runner(arguments, nodes)
    if nodes:
        runner.run({file_of(node) for node in nodes}, 1)
    else:
        names = {path.stem for path in TESTS.glob("test_*.py")}
        runner.run(names - ALONE, AT_ONCE)
        runner.run(names & ALONE, 1)
    merge(runner.codes, junit)
    return max((code for code in runner.codes.values() if code != NOTHING_COLLECTED), default=0)


if __name__ == "__main__":
    sys.exit(main())
