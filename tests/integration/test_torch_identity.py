"""A rank that no launcher has named: torch.distributed inside the process says it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import harness
import pytest
from harness import Cli, Target, wait_until

StartTarget = Callable[..., Target]
TORCH = harness.ROOT / "build/torch-venv/bin/python"
LIBRARY = str(harness.BIN / "libprobing.so")


def job_of(probing: Cli, pid: int) -> dict:
    [found] = [each for each in probing("list", "--json").expect(0).json if each["pid"] == pid]
    return found["job"]


@pytest.mark.slow(240)  # torch is imported
@pytest.mark.skipif(
    not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
)
def test_torch_says_the_rank_where_no_launcher_has(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    """Two processes that were started by hand, with numbers that stand in no variable."""
    more = {"python": str(TORCH), "LD_PRELOAD": LIBRARY, "PROBING_PYTHON_MEMORY_INTERVAL": "0.2"}
    jobs = [target("torch_unnamed", tmp_path / "store", rank, 2, **more) for rank in range(2)]
    for rank, job in enumerate(jobs):
        wait_until(lambda: job_of(probing, job.pid)["rank"] is not None, 60, "it has a rank")  # noqa: B023
        told = job_of(probing, job.pid)
        assert (told["rank"], told["world_size"], told["role"]) == (rank, 2, "rank")
        assert told["launcher"] == "torch"
    pids = ", ".join(str(job.pid) for job in jobs)
    sql = f"SELECT DISTINCT pid, rank FROM global.python.memory WHERE pid IN ({pids}) ORDER BY rank"
    assert harness.rows(probing, sql) == [{"pid": job.pid, "rank": rank} for rank, job in enumerate(jobs)]


def test_without_torch_nothing_is_imported_and_there_is_no_rank(probing: Cli, target: StartTarget) -> None:
    job = target("plain", LD_PRELOAD=LIBRARY, PROBING_PYTHON_MEMORY_INTERVAL="0.05")
    sql = "SELECT count(*) AS n FROM python.memory WHERE blocks IS NOT NULL"
    wait_until(lambda: harness.rows(probing, sql, job.pid)[0]["n"] > 2, 20, "it was looked at from inside")
    assert job_of(probing, job.pid)["rank"] is None
    loaded = probing("-t", job.pid, "eval", "import sys; 'torch' in sys.modules").expect(0).stdout
    assert loaded.strip() == "False"
