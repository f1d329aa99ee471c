#!/usr/bin/env python3
"""Runs every fuzzer of build/fuzz for FUZZ_SECONDS (20) and prints a line for each.

    fuzz.py [NAME…]     all of them, or those named

Starts from tests/corpus/NAME and what earlier runs found worth keeping (build/fuzz/corpus/NAME).
An input that crashes, hangs or takes too much memory stays in build/fuzz/findings/NAME, and the
exit code is 1.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/fuzz"
LIMITS = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=16384", "-print_final_stats=1"]
STATISTICS = re.compile(r"^stat::(\w+):\s+(\d+)", re.MULTILINE)
COVERAGE = re.compile(r"cov: (\d+)")


def run(name: str, seconds: int) -> bool:
    corpus, findings = BUILD / "corpus" / name, BUILD / "findings" / name
    for folder in (corpus, findings):
        folder.mkdir(parents=True, exist_ok=True)
    command = [str(BUILD / "bin" / name), *LIMITS, f"-max_total_time={seconds}"]
    command += [f"-artifact_prefix={findings}/", str(corpus), str(ROOT / "tests/corpus" / name)]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=BUILD)
    statistics = dict(STATISTICS.findall(done.stderr))
    covered = COVERAGE.findall(done.stderr)
    passed = done.returncode == 0
    print(
        f"{'ok  ' if passed else 'FAIL'} {name:<20}"
        f"{int(statistics.get('number_of_executed_units', 0)):>12,} inputs"
        f"{(covered or ['0'])[-1]:>7} places"
        f"{statistics.get('peak_rss_mb', '?'):>6} MB"
        f"{time.monotonic() - started:>7.1f} s",
        flush=True,
    )
    if not passed:
        print("\n".join(done.stderr.splitlines()[-60:]))
        print(f"     the input is in {findings.relative_to(ROOT)}")
    return passed


def main() -> int:
    known = sorted(path.stem for path in ROOT.glob("src/**/*_fuzz.cc"))
    names = sys.argv[1:] or known
    unknown = set(names) - set(known)
    if unknown:
        print(f"no fuzzer {', '.join(sorted(unknown))}: there are {', '.join(known)}", file=sys.stderr)
        return 2
    seconds = int(os.environ.get("FUZZ_SECONDS", "20"))
    results = [run(name, seconds) for name in names]
    print(f"{sum(results)} of {len(results)} fuzzers found nothing")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
