#!/usr/bin/env python3
"""Runs every suite, shows its output, and ends with a table of times and `N passed, M failed`.

The counts come from the JUnit files that ctest and pytest write to build/test-results; a check
without one counts as a single test. The last line is also left there as `summary`.

The tests are about processes that other people schedule, on machines that other people use. A few that
failed are therefore tried once more; those that hold then are passed, and named as unsteady, so that
somebody looks at them.
"""

from __future__ import annotations

import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build/test-results"
MOST_TRIED_AGAIN = 5


@dataclass
class Suite:
    name: str
    command: list[str]
    junit: Path | None = None
    again: list[str] = field(default_factory=list)  # what makes `command` try only those that failed
    seconds: float = 0.0
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)

    def run(self) -> None:
        started = time.monotonic()
        self.run_once(self.command)
        if self.again and 0 < self.failed <= MOST_TRIED_AGAIN:
            first = self.failed, list(self.failures)
            passed, skipped = self.passed, self.skipped
            self.passed = self.failed = self.skipped = 0
            self.failures = []
            self.run_once([*self.command, *self.again], "once more: ")
            if self.passed + self.failed != first[0]:  # not those that were meant
                self.failed, self.failures = first
                self.passed = 0
            self.unsteady = [name for name in first[1] if name not in self.failures]
            self.passed, self.skipped = self.passed + passed, skipped
        self.seconds = time.monotonic() - started

    def run_once(self, command: list[str], why: str = "") -> None:
        print(f"── {why}{self.name} " + "─" * (70 - len(why + self.name)), flush=True)
        if self.junit is not None:
            self.junit.unlink(missing_ok=True)
        code = subprocess.run(command, cwd=ROOT).returncode
        if self.junit is not None and self.junit.exists():
            self.count_cases(self.junit)
        elif code == 0:
            self.passed = 1
        if code != 0 and self.failed == 0:  # died before it could say what failed
            self.failed, self.failures = 1, [f"{self.name}: exit code {code}"]

    def count_cases(self, junit: Path) -> None:
        for case in ElementTree.parse(junit).iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed += 1
                self.failures.append(f"{self.name}: {case.get('name')}")
            elif case.find("skipped") is not None or case.get("status") in {"notrun", "disabled"}:
                self.skipped += 1
            else:
                self.passed += 1


def suites(pytest_arguments: list[str]) -> list[Suite]:
    cpp, integration = RESULTS / "ctest.xml", RESULTS / "pytest.xml"
    ctest = ["ctest", "--test-dir", "build/release", "--output-on-failure", "--output-junit", str(cpp)]
    web = RESULTS / "vitest.xml"
    vitest = ["web/node_modules/.bin/vitest", "run", "--root=web", "--reporter=default", "--reporter=junit"]
    # --no-tests=error: a build without tests must not look like one whose tests pass.
    return [
        Suite("web", [*vitest, f"--outputFile.junit={web}"], web),
        Suite("layers", [sys.executable, "tools/check_layers.py"]),
        Suite("symbols", [sys.executable, "tools/check_symbols.py", "build/release/bin/libprobing.so"]),
        Suite("c++", [*ctest, "--no-tests=error"], cpp, ["--rerun-failed"]),
        Suite(
            "integration",
            [sys.executable, "tools/side_by_side.py", str(integration), *pytest_arguments],
            integration,
            ["--last-failed"],
        ),
    ]


def print_table(done: list[Suite]) -> None:
    print("─" * 74)
    print(f"{'suite':<14}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>10}")
    for suite in done:
        print(f"{suite.name:<14}{suite.passed:>8}{suite.failed:>8}{suite.skipped:>9}{suite.seconds:>10.1f}")
    for suite in done:
        for name in suite.unsteady:
            print(f"unsteady, failed once: {name}")
        for failure in suite.failures:
            print(f"failed: {failure}")


def main() -> int:
    RESULTS.mkdir(parents=True, exist_ok=True)
    done = suites(sys.argv[1:])
    for suite in done:
        suite.run()
    print_table(done)
    failed = sum(suite.failed for suite in done)
    summary = f"{sum(suite.passed for suite in done)} passed, {failed} failed"
    (RESULTS / "summary").write_text(summary + "\n")
    print(summary)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
