"""Jobs that start no collective from Python: all of them come from torch's Flight Recorder.

Four ranks of plain DistributedDataParallel on gloo, entered in the middle, or after they have begun to hang.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import ROOT, TARGETS, Cli, clean_environment, rows, wait_until

TORCH = ROOT / "build/torch-venv/bin/python"
WORLD = 4
WHO = 2
PATIENCE = 2

pytestmark = [
    pytest.mark.slow(120),
    pytest.mark.skipif(
        not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
    ),
]


class DdpJob:
    def __init__(self, folder: Path, trouble: str) -> None:
        self.name = f"ddp-{trouble}"
        self.outputs = [folder / f"rank{rank}.txt" for rank in range(WORLD)]
        self.ranks = []
        for rank, output in enumerate(self.outputs):
            environment = clean_environment(RANK=str(rank), WORLD_SIZE=str(WORLD), PROBING_JOB=self.name)
            command = [str(TORCH), str(TARGETS / "target_ddp.py"), str(folder / "store"), trouble, str(WHO)]
            with output.open("w") as file:
                process = subprocess.Popen(
                    command, env=environment, stdin=subprocess.PIPE, stdout=file, stderr=subprocess.STDOUT
                )
            self.ranks.append(process)
        self.pids = [rank.pid for rank in self.ranks]

    def await_step(self, step: int, rank: int = 0) -> None:
        def reached() -> bool:
            words = self.outputs[rank].read_text().split()
            return bool(words) and words[-1].isdigit() and int(words[-1]) >= step

        wait_until(reached, 90, f"step {step} of rank {rank}")

    def findings(self, probing: Cli, *options: str) -> list[dict]:
        answer = json.loads(probing("diagnose", "--json", "--patience", PATIENCE, *options).stdout)
        return [one for one in answer["findings"] if set(one["pids"]) & set(self.pids)]

    def end(self) -> None:
        for rank in self.ranks:
            rank.kill()
        for rank in self.ranks:
            rank.wait()


StartJob = Callable[[str], DdpJob]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartJob]:
    jobs = []

    def start_job(trouble: str) -> DdpJob:
        jobs.append(DdpJob(tmp_path, trouble))
        return jobs[-1]

    yield start_job
    for job in jobs:
        job.end()


def test_every_collective_of_cpp_is_a_row_once(probing: Cli, start: StartJob) -> None:
    job = start("none")
    job.await_step(20)
    probing("-t", f"job:{job.name}", "inject", timeout=60).expect(0)
    sql = (
        "SELECT seq, op, bytes, dtype, state, source, process_group, p2p, sizes FROM python.collectives"
        " ORDER BY seq"
    )
    first = wait_until(lambda: rows(probing, sql, job.pids[0]), 30, "rows")
    last = first[-1]
    assert last["op"] == "all_reduce" and last["bytes"] == 4 * (64 * 64 + 64 + 64 * 8 + 8)
    assert last["dtype"] == "float32" and last["sizes"] == "[[4680]]" and last["state"] == "completed"
    assert last["source"] == "flight_recorder" and last["process_group"] == "0" and last["p2p"] is False
    again = wait_until(
        lambda: len(now := rows(probing, sql, job.pids[0])) > len(first) and now, 30, "more rows"
    )
    numbers = [row["seq"] for row in again]
    assert len(set(numbers)) == len(numbers), "none twice, however often they are read"
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), "and none is missing"
    # Arrivals of one operation can be compared between ranks.
    late = (
        "SELECT count(DISTINCT rank) AS ranks FROM global.python.collective_starts WHERE seq = 20 AND pid IN "
    )
    [row] = rows(probing, late + str(tuple(job.pids)), job.pids[0])
    assert row["ranks"] == WORLD
    # Healthy, and has run for longer than the patience.
    job.await_step(120)
    assert job.findings(probing) == []
    # Nothing of ours is left, and the job goes on.
    assert "stays mapped" not in probing("-t", job.pids[0], "eject", timeout=60).expect(0).stdout
    assert "libprobing" not in Path(f"/proc/{job.pids[0]}/maps").read_text()
    threads = [path.read_text().strip() for path in Path(f"/proc/{job.pids[0]}/task").glob("*/comm")]
    assert not [name for name in threads if name.startswith("probing")]
    done = int(job.outputs[0].read_text().split()[-1])
    job.await_step(done + 20)


def test_the_rank_that_arrives_last_is_the_straggler_and_its_line_is_named(
    probing: Cli, start: StartJob
) -> None:
    job = start("straggler")
    job.await_step(20)
    probing("-t", f"job:{job.name}", "inject", timeout=60).expect(0)
    job.await_step(60)
    [finding] = wait_until(lambda: job.findings(probing), 60, "a finding")
    assert (finding["class"], finding["ranks"]) == ("straggler", [WHO])
    wait_until(
        lambda: "meanwhile it is in load_slow_batch" in job.findings(probing)[0]["evidence"],
        30,
        "the function is named",
    )
    # The others come first, each to every one of them; the last 50 are those of slow steps.
    late = (
        "SELECT rank, median(lateness) AS ms FROM (SELECT * FROM global.python.collectives"
        f" WHERE pid IN {tuple(job.pids)} AND op = 'all_reduce' ORDER BY seq DESC LIMIT 100)"
        " GROUP BY rank ORDER BY rank"
    )
    by_rank = {row["rank"]: row["ms"] for row in rows(probing, late)}
    assert by_rank[WHO] > 30 and all(ms < 25 for rank, ms in by_rank.items() if rank != WHO), by_rank


@pytest.mark.parametrize("trouble", ["sleep", "lock", "input"])
def test_a_job_that_hangs_already_names_only_the_rank_that_did_not_come(
    probing: Cli, start: StartJob, trouble: str
) -> None:
    job = start(trouble)
    job.await_step(10, rank=WHO)
    probing("-t", f"job:{job.name}", "inject", timeout=60).expect(0)
    findings = wait_until(lambda: job.findings(probing), 60, "a finding")
    assert [(one["class"], one["ranks"]) for one in findings] == [("collective_hang", [WHO])]
    assert "3 of 4 ranks wait in all_reduce #25 of group 0" in findings[0]["evidence"]
    assert "(its last was #24)" in findings[0]["evidence"]


def test_a_size_that_differs_names_the_rank_that_differs(probing: Cli, start: StartJob) -> None:
    job = start("size")
    job.await_step(10, rank=WHO)
    probing("-t", f"job:{job.name}", "inject", timeout=60).expect(0)
    [finding] = wait_until(
        lambda: job.findings(probing, "--class", "collective_mismatch"), 60, "a finding of that class"
    )
    assert finding["ranks"] == [WHO]
    assert "rank 2 calls all_reduce of 28 bytes" in finding["evidence"]


def test_a_hang_is_named_without_any_probe_also_while_the_gil_is_held(probing: Cli, start: StartJob) -> None:
    job = start("gil")
    job.await_step(10, rank=WHO)

    def asked() -> dict | None:
        answer = probing("-t", f"job:{job.name}", "diagnose", "--json", "--patience", PATIENCE).expect(6).json
        return answer if answer["findings"] else None

    answer = wait_until(asked, 60, "a finding")
    [finding] = answer["findings"]
    assert (finding["class"], finding["ranks"], finding["job"]) == ("collective_hang", [WHO], job.name)
    assert "3 of 4 ranks wait in torch" in finding["evidence"]
    assert "rank 2 is in keep_the_gil (troubles.py" in finding["evidence"]
    assert "holds the GIL" in finding["evidence"]
    [seen] = answer["seen"]
    assert seen["probed"] == [] and seen["not_probed"] == [0, 1, 2, 3] and seen["collectives"] == "no"
    assert seen["next"] == f"probing -t job:{job.name} inject"
    text = probing("-t", f"job:{job.name}", "diagnose", "--patience", PATIENCE).expect(6)
    assert text.stdout.startswith(f"job {job.name}: 0 of 4 ranks probed (not: 0, 1, 2, 3); collectives: no\n")
    assert f"`probing -t job:{job.name} inject`" in text.stderr


@pytest.mark.parametrize(
    ("trouble", "place"), [("rendezvous", "read_dataset_index"), ("pipeline", "make_trouble")]
)
def test_what_torch_does_not_record_is_seen_in_the_stacks(
    probing: Cli, start: StartJob, trouble: str, place: str
) -> None:
    job = start(trouble)
    job.await_step(10, rank=WHO)
    probing("-t", f"job:{job.name}", "inject", timeout=60).expect(0)
    findings = wait_until(lambda: job.findings(probing), 90, "a finding")
    assert [(one["class"], one["ranks"]) for one in findings] == [("collective_hang", [WHO])]
    assert f"rank 2 is in {place} (target_ddp.py" in findings[0]["evidence"]
