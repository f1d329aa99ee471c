#!/usr/bin/env python3
"""Breaks safety-relevant code on purpose, one line at a time, and says which breaks no test notices.

    mutants.py                     every mutant of tools/mutant_list.py
    mutants.py NAME…               those whose file or reason contains one of the words
    mutants.py --random 10 [--seed N]
    mutants.py --check             only that each old text is in its file exactly once, and each test exists

Each mutant has a view of the checkout of its own (an overlay mount in a mount namespace, over the same
path, so that the build folder serves as it is): nothing is ever written to the checkout. There the text is
replaced, what the tests need is built, and the tests run apart from everything else (tools/apart.sh). One
that fails, or does not end, kills the mutant. Before, all these tests run once without any mutant. Needs
root, and a build that is up to date (`make mutants`).

Exits with 1 when a mutant survives, does not compile, or has a text or a test that does not exist.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from mutant_list import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"
APART = ROOT / "tools/apart.sh"
MOST_SECONDS = 600  # for the tests of one mutant; one that hangs is killed
VIEW = """
set -eu
mount -t tmpfs tmpfs "$FOLDER"
mkdir "$FOLDER/upper" "$FOLDER/work"
mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$FOLDER/upper,workdir=$FOLDER/work" "$ROOT"
cd "$ROOT"
exec "$@"
"""


# ── what the tests of a mutant are ───────────────────────────────────────────────────────────


def is_cpp(test: str) -> bool:
    return not test.startswith("tests/")


def targets_of(tests: Iterable[str]) -> list[str]:
    """What has to be built: `ring.Reader` is in ring_test, `corpus.x` in x_corpus; others need programs."""
    found = set()
    for test in tests:
        if not is_cpp(test):
            found.add("all")
        elif test.startswith("corpus."):
            found.add(test.removeprefix("corpus.") + "_corpus")
        else:
            found.add(test.partition(".")[0] + "_test")
    return sorted(found)


def commands_of(tests: Iterable[str]) -> list[list[str]]:
    cpp = [test for test in tests if is_cpp(test)]
    python = [test for test in tests if not is_cpp(test)]
    commands = []
    if cpp:
        names = "|".join(f"^{re.escape(test)}" for test in cpp)
        ctest = ["ctest", "--test-dir", str(BUILD), "-R", names, "--no-tests=error", "--stop-on-failure"]
        commands.append([str(APART), *ctest, "--timeout", "120"])
    if python:
        commands.append([str(APART), sys.executable, "-m", "pytest", "-x", "-q", *python])
    return commands


# ── one mutant, in its own view of the checkout ──────────────────────────────────────────────


def in_own_view(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    folder = ROOT / "build/mutant-view"
    folder.mkdir(exist_ok=True)
    environment = os.environ | {"FOLDER": str(folder), "ROOT": str(ROOT)}
    own = [sys.executable, "tools/mutants.py", *arguments]
    command = ["unshare", "--mount", "--propagation", "private", "bash", "-c", VIEW, "bash", *own]
    return subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, cwd=ROOT)


def build(tests: Iterable[str]) -> str:
    """What the compiler says when it fails."""
    command = ["cmake", "--build", str(BUILD), "--target", *targets_of(tests)]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT)
    return done.stdout[-3000:] if done.returncode else ""


def run_tests(tests: Iterable[str]) -> tuple[str, str]:
    """`passed`, or `failed` or `hung`, and what was said."""
    for command in commands_of(tests):
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=MOST_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return "hung", ""
        if done.returncode:
            return "failed", done.stdout[-3000:]
    return "passed", ""


def run_here(mutant: Mutant) -> int:
    path = ROOT / mutant.file
    path.write_text(path.read_text().replace(mutant.old, mutant.new))
    is_compiled = mutant.file.startswith(("src/", "include/", "web/"))
    if is_compiled and (said := build(mutant.tests)):
        print(f"does not compile\n{said}")
        return 1
    verdict, said = run_tests(mutant.tests)
    if verdict == "passed":
        print("SURVIVED")
        return 1
    failed = re.findall(
        r"^(?:FAILED|ERROR) (\S+)|\d+ - (\S+) \((?:Failed|.*Exception.*|Timeout)\)", said, re.M
    )
    print("killed by " + (", ".join(a or b for a, b in failed[:2]) or verdict))
    return 0


# ── all of them ──────────────────────────────────────────────────────────────────────────────


def check(mutants: Sequence[Mutant]) -> list[str]:
    problems = []
    for mutant in mutants:
        path = ROOT / mutant.file
        times = path.read_text().count(mutant.old) if path.exists() else 0
        if times != 1:
            problems.append(f"{mutant.file}: {times} times, not once: {mutant.old!r}")
        if mutant.old == mutant.new or not mutant.tests or not mutant.why:
            problems.append(f"{mutant.file}: changes nothing, or has no test or reason: {mutant.old!r}")
        if sum(one.why == mutant.why for one in mutants) > 1:
            problems.append(f"two mutants with one reason: {mutant.why}")
        for test in mutant.tests:
            problems += [] if exists(test) else [f"{mutant.file}: no test {test}"]
    return problems


def exists(test: str) -> bool:
    if is_cpp(test):
        if test.startswith("corpus."):
            return (ROOT / "tests/corpus" / test.removeprefix("corpus.")).is_dir()
        suite, _, name = test.partition(".")[2].partition(".")
        if not suite:
            return (ROOT / "src" / test.partition(".")[0]).is_dir()
        sources = (path.read_text() for path in ROOT.glob("src/**/*_test.cc"))
        word = rf"TEST(?:_F|_P)?\(\s*{re.escape(suite.rpartition('/')[2])}" + (
            rf",\s*{re.escape(name)}" if name else ""
        )
        return any(re.search(word, text) for text in sources)
    file, _, name = test.partition("::")
    path = ROOT / file
    return path.exists() and (not name or f"def {name.partition('[')[0]}(" in path.read_text())


def chosen(options: argparse.Namespace) -> list[Mutant]:
    if options.random:
        seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
        print(f"seed {seed}")
        return random.Random(seed).sample(MUTANTS, min(options.random, len(MUTANTS)))
    if options.words:
        return [one for one in MUTANTS if any(word in one.file or word in one.why for word in options.words)]
    return list(MUTANTS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--random", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here is not None:
        return run_here(next(one for one in MUTANTS if one.why == options.here))
    mutants = chosen(options)
    if problems := check(MUTANTS):
        print(*problems, sep="\n")
        return 1
    if options.check:
        return 0
    if os.getuid() != 0:
        sys.exit("mutants.py needs root: it mounts an overlay over its own view of the checkout")
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    print(f"{len(mutants)} mutants; first {len(tests)} tests without any", flush=True)
    if said := build(tests):
        sys.exit(f"the code does not compile: {said}")
    verdict, said = run_tests_in_parts(tests)
    if verdict != "passed":
        sys.exit(f"without a mutant the tests {verdict}: {said}")
    bad = []
    for number, mutant in enumerate(mutants, 1):
        began = time.monotonic()
        done = in_own_view(["--here", mutant.why])
        print(f"{number:>3} {mutant.file}: {mutant.why}: {done.stdout.strip()}", end=" ")
        print(f"({time.monotonic() - began:.0f} s)", flush=True)
        if done.returncode:
            bad.append(mutant)
    print(f"{len(mutants) - len(bad)} killed, {len(bad)} not")
    for mutant in bad:
        print(f"not killed: {mutant.file}: {mutant.why}")
    return 1 if bad else 0


def run_tests_in_parts(tests: list[str]) -> tuple[str, str]:
    """Of many mutants: file by file, so that none takes MOST_SECONDS."""
    for file in sorted({test.partition("::")[0] if not is_cpp(test) else "" for test in tests}):
        part = [test for test in tests if (is_cpp(test) and not file) or (file and test.startswith(file))]
        verdict, said = run_tests(part)
        if verdict != "passed":
            return verdict, said
    return "passed", ""


if __name__ == "__main__":
    sys.exit(main())
