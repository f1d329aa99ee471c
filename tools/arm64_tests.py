#!/usr/bin/env python3
"""Runs tests on Debian's arm64 kernel in qemu (tools/arm64_machine.py): C++ tests of what knows processors
and the kernel, and integration tests, which are the files that run everywhere else, too.

    arm64_tests.py JUNIT core      with tests/programs/direct_probing.cc: no probingd, no DuckDB
    arm64_tests.py JUNIT           all that is listed here, with the programs that users get
    arm64_tests.py JUNIT TEST…     these, as `core` runs them

The processor is one in software, some forty times slower. So tests wait longer (PROBING_EMULATED, see
tests/integration/harness.py), and the list has what another processor can break, not what is the same C++ or
SQL everywhere.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from arm64_machine import PARTS, ROOT, SECONDS, Missing, boot, show

BUILD = Path("build/release-arm64")
PROGRAMS = ("bin/probing", "bin/probingd", "bin/libprobing.so", "bin/libprobing-nccl.so", "bin/libduckdb.so")
DIRECT = ("direct/probing", "bin/libprobing.so")
CPP_TESTS = ("arch", "inject", "unwind", "process", "ring")
# What compares times to some milliseconds, which an emulated machine on a busy one takes for an instruction.
LEFT_OUT = "BlockedCall.TellsForHowLongAThreadSleeps"
C_TARGETS = ("vectors", "blocked", "churn", "reading_allocator", "native_threads", "wait")
TIMES_SLOWER = 10
FRESH_TARGETS = 100

INJECT, STACKS, NATIVE = "test_inject.py", "test_stacks.py", "test_native_stacks.py"
CORE = (
    f"{INJECT}::test_inject_enters_a_busy_python_and_eject_leaves_it",
    f"{INJECT}::test_eject_leaves_threads_and_descriptors_as_they_were",
    f"{INJECT}::test_vector_registers_and_the_red_zone_are_kept",
    f"{INJECT}::test_a_job_prints_the_same_result_with_and_without_us",
    f"{INJECT}::test_a_blocked_system_call_sees_no_eintr[poll]",
    "test_fork.py::test_forked_workers_carry_nothing_of_ours",
)
MORE = (
    f"{INJECT}::test_inject_enters_a_sleeping_python",
    f"{INJECT}::test_100_cycles_into_a_malloc_and_dlopen_heavy_python",
    f"{INJECT}::test_100_cycles_into_a_malloc_and_dlopen_heavy_c_program",
    f"{INJECT}::test_fresh_targets_live_after_being_entered",
    f"{INJECT}::test_a_thread_whose_read_is_over_is_not_taken_for_one_that_waits",
    # Not recv: its time-out, counted in ticks, comes early on an emulated machine without us as well.
    *(
        f"{INJECT}::test_a_blocked_system_call_sees_no_eintr[{how}]"
        for how in ("read", "nanosleep", "futex", "epoll", "poll")
    ),
    f"{INJECT}::test_a_stopped_process_is_not_woken_up",
    "test_killed_injector.py",
    STACKS,
    NATIVE,
    "test_leaving.py::test_the_job_is_what_it_was_and_goes_on_as_ever",
    "test_leaving.py::test_a_job_that_was_only_entered_forks_afterwards",
    "test_fork.py",
    "test_eval.py::test_several_lines_run_and_the_last_expression_is_the_value",
    "test_eval.py::test_an_endless_evaluation_is_interrupted_at_its_deadline",
    "test_eval.py::test_the_thread_that_keeps_the_gil_is_named",
    "test_eval.py::test_many_at_once_all_get_their_own_answer",
    "test_sampling.py::test_the_svg_is_well_formed_and_has_the_functions",
    "test_sampling.py::test_only_the_holder_of_the_gil",
    "test_native_sampling.py::test_python_and_native_frames_are_in_one_stack",
    "test_query.py::test_values_survive_every_text_format",
    "test_query.py::test_stacks_of_an_unprepared_process_as_rows",
    "test_query.py::test_series_begin_when_a_target_is_probed",
)


def prepare_targets() -> None:
    """C programs to look into, compiled here: there is no compiler there."""
    folder = PARTS / "targets"
    folder.mkdir(exist_ok=True)
    for name in C_TARGETS:
        source, program = ROOT / f"tests/targets/target_{name}.c", folder / name
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            compiler = [str(ROOT / "cmake/zig-aarch64-cc"), "-O2", "-Wall", "-pthread"]
            subprocess.run([*compiler, "-o", str(program), str(source), "-ldl"], check=True)


def check_built(*names: str) -> None:
    for name in names:
        if not (ROOT / BUILD / name).exists():
            raise Missing(f"no {BUILD / name}: make test-arm64")


def cpp_lines() -> list[str]:
    """From a place of their own: a shared folder is slow to map."""
    lines = []
    for name in CPP_TESTS:
        lines.append(f"cp {BUILD}/bin/{name}_test /tests/")
        lines.append(
            f"/tests/{name}_test --gtest_filter=-{LEFT_OUT} --gtest_output=xml:/out/{name}.xml || code=1"
        )
    return lines


def integration_lines(tests: list[str], programs: tuple[str, ...]) -> list[str]:
    nodes = shlex.join(test if "/" in test else f"tests/integration/{test}" for test in tests)
    environment = f"PROBING_BIN=/tests/bin PROBING_TARGETS=/tests/targets PROBING_EMULATED={TIMES_SLOWER}"
    environment += f" PROBING_FRESH={FRESH_TARGETS} PROBING_PYTHONS=/opt/pythons/3.13/bin/python3"
    options = "-p no:cacheprovider --durations=0 -v --junit-xml=/out/integration.xml"
    return [
        "mkdir -p /tests/bin",
        *(f"cp -L {BUILD}/{name} /tests/bin/" for name in programs),
        "ln -s libprobing.so /tests/bin/libprobe.so",
        "cp -r build/arm64/targets /tests/targets",
        f"{environment} python3.11 -m pytest {options} {nodes} || code=1",
    ]


def collect(out: Path, junit: Path) -> None:
    """One file from those that the tests wrote there."""
    root = ElementTree.Element("testsuites")
    for part in sorted(out.glob("*.xml")):
        root.extend(ElementTree.parse(part).iter("testsuite"))
    junit.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(root).write(junit, encoding="utf-8")


def test(junit: Path, tests: list[str], programs: tuple[str, ...], with_cpp: bool) -> int:
    check_built(*(f"bin/{name}_test" for name in CPP_TESTS if with_cpp), *programs)
    prepare_targets()
    lines = ["mkdir -p /tests", "code=0", *(cpp_lines() if with_cpp else [])]
    lines += [*integration_lines(tests, programs), "exit $code", ""]
    with tempfile.TemporaryDirectory(prefix="probing-arm64-") as folder:
        code = boot("\n".join(lines), Path(folder), SECONDS)
        show(Path(folder))
        collect(Path(folder), junit)
    return code


def main() -> int:
    try:
        match sys.argv[1:]:
            case [junit, "core"]:
                return test(Path(junit), list(CORE), DIRECT, with_cpp=False)
            case [junit]:
                return test(Path(junit), [*CORE, *MORE], PROGRAMS, with_cpp=True)
            case [junit, *chosen]:
                return test(Path(junit), chosen, DIRECT, with_cpp=False)
    except Missing as missing:
        print(f"arm64: {missing}", file=sys.stderr)
        return 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
