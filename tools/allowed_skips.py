"""Tests that may be skipped where everything that `make test` installs is there, as it is in CI.

A skip that no row allows is red when CI is set: nobody would notice a test that never runs. Rows are for what
a kernel or a Python cannot do; what can be installed is installed.
"""

from __future__ import annotations

from typing import NamedTuple


class Skip(NamedTuple):
    test: str  # a regular expression for the test's name
    missing: str  # and one for the reason it gives
    why: str  # it cannot be run everywhere


ALLOWED = (
    Skip(
        "",
        r"^no Python 3\.\d+ on this machine|^there is no Python (3\.\d+|>= 3\.12)",
        "a distribution has one Python; which were not tested is said in the last lines",
    ),
    Skip("test_offsets", r"^no headers of Python", "a distribution has them in a package of their own"),
    # ── what a version of Python cannot do ───────────────────────────────────────────────────
    Skip("x_perf", r"^-X perf is of 3\.12", "older ones have no trampolines"),
    Skip(
        r"\[3\.[67]\.",
        "no place in this interpreter where streams could wait",
        "streams of ours could wait nowhere",
    ),
    Skip(
        r"\[3\.6\.",
        "without a second thread this Python has no GIL to take",
        "3.6 makes the GIL with the second thread",
    ),
    Skip(
        r"3\.\d+t", "without a GIL|^nobody holds it|^not traced", "free-threaded builds, after `make pythons`"
    ),
    Skip(
        r"\[3\.14",
        "gcore leaves out stacks|knows only the loader",
        "Debian's 3.14 runs with a loader of its own",
    ),
    Skip(
        "",
        "^this Python (has no|is no library|has a library)|no Python here describes itself",
        "how a Python was built",
    ),
    Skip(
        "test_the_ranks_that_were_broken_are_named|test_the_command_that_comes_next_works",
        "recordings of shared/data are not beside this checkout",
        "they are others' recordings, kept beside the repository; made-up ones are always tested",
    ),
    Skip("mpirun", "^needs mpirun", "an MPI that nothing else here needs; run where there is one"),
    # ── what a machine or a kernel cannot do ─────────────────────────────────────────────────
    Skip("", "has no AVX2", "hardware"),
    Skip("", "the kernel writes cores elsewhere", "a setting of the host"),
    Skip("", "this kernel makes no veth", "a kernel without network namespaces' cables"),
    Skip(
        "",
        "^Linux before 6.15|no memory cgroup of version 1",
        "each kernel has one of several ways to tell an end",
    ),
    Skip("", "needs CAP_SYS_NICE", "containers may not have it"),
    Skip("gvisor", "^runsc does not start here", "its ptrace platform wants a kernel that allows it"),
    # ── what is too large ────────────────────────────────────────────────────────────────────
    Skip("spark", "needs spark-venv", "450 MB and Java; `make nightly` installs it"),
    Skip(
        "DeepSpeed|deepspeed|Ray Train",
        "needs (deepspeed in build/)?launchers-venv",
        "1 GB, and a compiler's time: `tools/install_deps.sh launchers` installs it",
    ),
)
