#!/usr/bin/env python3
"""Runs every suite, shows its output, and ends with a table of times and `N passed, N failed, N skipped`.

    run_tests.py [argument of pytest…]

The counts come from the JUnit files that ctest and pytest write to build/test-results; a check
without one counts as a single test. The last line is also left there as `summary`.

A failure is red. One exception: a test that is marked `load_dependent`, with the reason why other programs
on the machine can make it fail, is tried once more, and is then listed as unsteady. It is not tried
again when a target died or stayed stopped (harness.Harm), when it was unsteady with other parameters in the
same run, or when more than MOST_TRIED_AGAIN failed.

Skips are listed with what is missing. With CI set, one that tools/allowed_skips.py does not name is red.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from allowed_skips import ALLOWED, Skip

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build/test-results"
MOST_TRIED_AGAIN = 5
LIBRARIES = [f"build/release/bin/{name}" for name in ("libprobing.so", "libprobing-nccl.so")]  # for targets
SUPPORTED = [f"3.{minor}" for minor in range(6, 14)]
OPTIONAL = ["3.14", "3.13t", "3.14t"]  # `make pythons`
VERSION = re.compile(r"3\.\d+(?:\.\d+)?t?")


@dataclass
class Case:
    """One test of a JUnit file. A test whose end fails, too, has two elements there."""

    suite: str
    file: str
    name: str
    failed: bool = False
    skipped: str | None = None  # the reason
    load_dependent: str = ""
    harm: str = ""

    @property
    def title(self) -> str:
        return f"{self.suite}: {self.name}"

    @property
    def function(self) -> str:
        return f"{self.file}::{self.name.partition('[')[0]}"

    @property
    def node(self) -> str:
        return f"{self.file.replace('.', '/')}.py::{self.name}"


def read_cases(suite: str, junit: Path) -> list[Case]:
    found: dict[tuple[str, str], Case] = {}
    for element in ElementTree.parse(junit).iter("testcase"):
        file, name = element.get("classname", ""), element.get("name", "")
        case = found.setdefault((file, name), Case(suite, file, name))
        if element.find("failure") is not None or element.find("error") is not None:
            case.failed = True
        skipped = element.find("skipped")
        if skipped is not None:
            case.skipped = skipped.get("message") or printed_reason(element)
        elif element.get("status") in {"notrun", "disabled"}:
            case.skipped = printed_reason(element)
        for each in element.iter("property"):
            if each.get("name") == "load_dependent":
                case.load_dependent = each.get("value", "")
            if each.get("name") == "harm":
                case.harm = each.get("value", "")
    return list(found.values())


def printed_reason(element: ElementTree.Element) -> str:
    """Of a C++ test: what GoogleTest printed after the place of its GTEST_SKIP."""
    output = "".join(element.itertext())
    found = re.search(r": Skipped\n(.+)", output)
    return found[1].strip() if found else "no reason given"


def to_try_again(failed: list[Case]) -> list[Case]:
    """Those that may have failed because of the machine alone: all of `failed`, or none."""
    times = Counter(case.function for case in failed)
    fit = all(case.load_dependent and not case.harm and times[case.function] == 1 for case in failed)
    return failed if fit and 0 < len(failed) <= MOST_TRIED_AGAIN else []


@dataclass
class Suite:
    name: str
    command: list[str]
    junit: Path | None = None
    can_try_again: bool = False  # `command` takes `--again NODE…`
    seconds: float = 0.0
    cases: list[Case] = field(default_factory=list)
    unsteady: list[Case] = field(default_factory=list)

    def run(self) -> None:
        started = time.monotonic()
        self.cases = self.run_once(self.command)
        again = to_try_again(self.failed) if self.can_try_again else []
        if again:
            nodes = [case.node for case in again]
            second = {
                case.name: case for case in self.run_once([*self.command, "--again", *nodes], "again: ")
            }
            for case in again:
                if case.name in second and not second[case.name].failed and second[case.name].skipped is None:
                    case.failed = False
                    self.unsteady.append(case)
        self.seconds = time.monotonic() - started

    def run_once(self, command: list[str], why: str = "") -> list[Case]:
        print(f"── {why}{self.name} " + "─" * (70 - len(why + self.name)), flush=True)
        if self.junit is not None:
            self.junit.unlink(missing_ok=True)
        code = subprocess.run(command, cwd=ROOT).returncode
        cases = []
        if self.junit is not None and self.junit.exists():
            cases = read_cases(self.name, self.junit)
        elif self.junit is None:
            cases = [Case(self.name, "", f"exit code {code}", failed=code != 0)]
        if code != 0 and not any(case.failed for case in cases):  # died before it could say what failed
            cases.append(Case(self.name, "", f"exit code {code}", failed=True))
        return cases

    @property
    def failed(self) -> list[Case]:
        return [case for case in self.cases if case.failed]

    @property
    def skipped(self) -> list[Case]:
        return [case for case in self.cases if case.skipped is not None and not case.failed]

    @property
    def passed(self) -> int:
        return len(self.cases) - len(self.failed) - len(self.skipped)


def suites(pytest_arguments: list[str]) -> list[Suite]:
    cpp, integration = RESULTS / "ctest.xml", RESULTS / "pytest.xml"
    ctest = ["ctest", "--test-dir", "build/release", "--output-on-failure", "--output-junit", str(cpp)]
    web, gate, e2e = RESULTS / "vitest.xml", RESULTS / "gate.xml", RESULTS / "e2e.xml"
    browser = ["build/e2e-venv/bin/python", "-m", "pytest", "-q", "-o", "pythonpath=tests/e2e", "tests/e2e"]
    apart = [str(ROOT / "tools/apart.sh")]
    vitest = ["web/node_modules/.bin/vitest", "run", "--root=web", "--reporter=default", "--reporter=junit"]
    # --no-tests=error: a build without tests must not look like one whose tests pass.
    return [
        Suite("web", [*vitest, f"--outputFile.junit={web}"], web),
        Suite("layers", [sys.executable, "tools/check_layers.py"]),
        Suite("symbols", [sys.executable, "tools/check_symbols.py", *LIBRARIES]),
        Suite("c++", [*ctest, "--no-tests=error"], cpp),
        Suite(
            "integration",
            [sys.executable, "tools/side_by_side.py", str(integration), *pytest_arguments],
            integration,
            can_try_again=True,
        ),
        Suite("browser", [*apart, *browser, f"--junitxml={e2e}"], e2e),
        Suite("bench gate", [*apart, sys.executable, "bench/gate.py", "--short", f"--junit={gate}"], gate),
    ]


# ── what the last lines say ──────────────────────────────────────────────────────────────────


def is_allowed(case: Case, allowed: tuple[Skip, ...] = ALLOWED) -> bool:
    return any(
        re.search(row.test, case.name) and re.search(row.missing, case.skipped or "") for row in allowed
    )


def print_table(done: list[Suite]) -> None:
    print("─" * 74)
    print(f"{'suite':<14}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>10}")
    for suite in done:
        counts = f"{suite.passed:>8}{len(suite.failed):>8}{len(suite.skipped):>9}"
        print(f"{suite.name:<14}{counts}{suite.seconds:>10.1f}")


def print_skips(skipped: list[Case]) -> None:
    for reason, count in Counter(case.skipped for case in skipped).most_common():
        names = [case.name for case in skipped if case.skipped == reason]
        shown = ", ".join(names[:3]) + (f" and {count - 3} more" if count > 3 else "")
        print(f"skipped, {count}: {reason}: {shown}")
    for case in skipped:
        if not is_allowed(case):
            print(f"skipped, and tools/allowed_skips.py does not name it: {case.title}")


def python_line(cases: list[Case]) -> str:
    """Tests that passed with each Python, by the parameters in their names, and Pythons without any."""
    counts: Counter[str] = Counter()
    for case in cases:
        if case.skipped is None and not case.failed:
            counts.update(set(VERSION.findall(case.name.partition("[")[2])))
    tested = sorted(counts, key=lambda one: (tuple(map(int, one.rstrip("t").split("."))), one))
    minors = {".".join(one.rstrip("t").split(".")[:2]) + one[len(one.rstrip("t")) :] for one in tested}
    missing = [one for one in SUPPORTED if one not in minors]
    line = "Pythons tested: " + (", ".join(f"{one} ({counts[one]})" for one in tested) or "none")
    line += f"; NOT TESTED: {', '.join(missing)}" if missing else ""
    absent = [one for one in OPTIONAL if one not in minors]
    return line + (f"; not here: {', '.join(absent)} (make pythons)" if absent else "")


def main() -> int:
    RESULTS.mkdir(parents=True, exist_ok=True)
    done = suites(sys.argv[1:])
    for suite in done:
        suite.run()
    print_table(done)
    cases = [case for suite in done for case in suite.cases]
    skipped = [case for suite in done for case in suite.skipped]
    failed = [case for suite in done for case in suite.failed]
    unsteady = [case for suite in done for case in suite.unsteady]
    print_skips(skipped)
    unexplained = [case for case in skipped if not is_allowed(case)] if os.environ.get("CI") else []
    for case in unsteady:
        print(f"unsteady, failed once: {case.title} ({case.load_dependent})")
    for case in failed:
        print(f"failed: {case.title}" + (f" (a target was harmed: {case.harm})" if case.harm else ""))
    print(python_line([case for case in cases if case.suite == "integration"]))
    print(f"unsteady: {len(unsteady)}")
    skips = len(skipped) - len(unexplained)
    summary = f"{len(cases) - len(skipped) - len(failed)} passed, {len(failed) + len(unexplained)} failed"
    summary += f", {skips} skipped"
    (RESULTS / "summary").write_text(summary + "\n")
    print(summary)
    return 1 if failed or unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
