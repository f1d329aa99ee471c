"""Files of torch's Flight Recorder as a target: the ranks a job hung for are named, and nothing is run."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli

SHARED = harness.ROOT.parent / "shared/data/flight_recorder"
BEGAN = 1_750_000_000_000_000_000


def findings(probing: Cli, directory: Path) -> list[dict[str, Any]]:
    return probing("-t", directory, "diagnose", "--json").expect(0).json["findings"]


# ── jobs that hung on real GPUs ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("run", ["gpu_error_1st", "lock_gil_1st"])
def test_the_ranks_that_were_broken_are_named(probing: Cli, run: str) -> None:
    if not (SHARED / run).is_dir():
        pytest.skip("the recordings of shared/data are not beside this checkout")
    log = (SHARED / run / "fault_injection.log").read_text()
    broken = [int(rank) for rank in re.findall(r"^Rank (\d+),", log, re.M)]
    [finding] = findings(probing, SHARED / run)
    assert (finding["class"], finding["ranks"]) == ("collective_hang", broken), finding
    assert str((SHARED / run).resolve()) in finding["next"]


def test_the_command_that_comes_next_works(probing: Cli) -> None:
    if not SHARED.is_dir():
        pytest.skip("the recordings of shared/data are not beside this checkout")
    sql = "SELECT DISTINCT description FROM python.process_groups WHERE rank = 12 AND members = '[12, 13]'"
    answer = probing("-t", SHARED / "gpu_error_1st", "query", sql, "--json").expect(0)
    assert {"description": "TENSOR_MODEL_PARALLEL_GROUP"} in answer.json
    ranks = probing(
        "-t", SHARED / "gpu_error_1st", "query", "SELECT rank FROM probing.targets ORDER BY rank", "--json"
    )
    assert [row["rank"] for row in ranks.expect(0).json] == list(range(16))


# ── made up ──────────────────────────────────────────────────────────────────────────────────


def entry(seq: int, over: bool, group: str = "0", **more: Any) -> dict[str, Any]:
    return {
        "record_id": seq,
        "pg_id": int(group),
        "process_group": (group, "default_pg"),
        "collective_seq_id": seq,
        "p2p_seq_id": 0,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": BEGAN + seq * 1_000_000,
        "input_sizes": [[1024]],
        "input_dtypes": ["Float"],
        "state": "completed" if over else "scheduled",
        "retired": over,
        "is_p2p": False,
        **more,
    }


def recording(entered: int, over: int, members: str = "[0, 1, 2]") -> dict[str, Any]:
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": members}},
        "pg_status": {"0": {"last_enqueued_collective": entered, "last_completed_collective": over}},
        "entries": [entry(seq, seq <= over) for seq in range(max(1, over - 2), entered + 1)],
    }


def write_all(folder: Path, recordings: dict[int, dict[str, Any]], form: str) -> None:
    for rank, content in recordings.items():
        if form == "json":
            (folder / f"nccl_trace_rank_{rank}.json").write_text(json.dumps(content))
        else:
            (folder / f"_dump_{rank}").write_bytes(pickle.dumps(content, int(form)))


@pytest.mark.parametrize("form", ["json", "2", "4", "5"])
def test_the_rank_that_did_not_come_is_named(probing: Cli, tmp_path: Path, form: str) -> None:
    write_all(tmp_path, {0: recording(9, 8), 1: recording(8, 8), 2: recording(9, 8)}, form)
    [finding] = findings(probing, tmp_path)
    assert (finding["class"], finding["ranks"]) == ("collective_hang", [1])
    assert "2 of 3 ranks wait in all_reduce #9" in finding["evidence"], finding
    assert "its last was #8" in finding["evidence"]


def test_a_rank_without_a_file_is_named(probing: Cli, tmp_path: Path) -> None:
    write_all(tmp_path, {0: recording(9, 8), 2: recording(9, 8)}, "4")
    [finding] = findings(probing, tmp_path)
    assert finding["ranks"] == [1]
    assert "rank 1 has no recording" in finding["evidence"], finding


def test_a_rank_whose_device_is_stuck_is_named(probing: Cli, tmp_path: Path) -> None:
    write_all(tmp_path, {0: recording(9, 9), 1: recording(9, 8), 2: recording(9, 9)}, "4")
    [finding] = findings(probing, tmp_path)
    assert finding["ranks"] == [1]
    assert "rank 1 does not finish it" in finding["evidence"], finding


def test_two_ranks_without_a_file_are_named(probing: Cli, tmp_path: Path) -> None:
    four = "[0, 1, 2, 3]"
    write_all(tmp_path, {0: recording(9, 8, four), 3: recording(9, 8, four)}, "4")
    [finding] = findings(probing, tmp_path)
    assert finding["ranks"] == [1, 2]
    assert "2 of 4 ranks wait" in finding["evidence"], finding


@pytest.mark.parametrize("who", [0, 1], ids=["a rank that waits", "the rank that is missing"])
def test_a_clock_that_is_an_hour_off_changes_no_name(probing: Cli, tmp_path: Path, who: int) -> None:
    recordings = {0: recording(9, 8), 1: recording(8, 8), 2: recording(9, 8)}
    for one in recordings[who]["entries"]:
        one["time_created_ns"] -= 3600 * 10**9
    write_all(tmp_path, recordings, "4")
    [finding] = findings(probing, tmp_path)
    assert (finding["class"], finding["ranks"]) == ("collective_hang", [1])


def of_torch_2_2(content: dict[str, Any]) -> dict[str, Any]:
    """No status of groups, one number for all operations, no `retired`."""
    entries = [
        {
            name: value
            for name, value in one.items()
            if name not in ("collective_seq_id", "p2p_seq_id", "retired")
        }
        | {"seq_id": one["collective_seq_id"], "state": "completed" if one["retired"] else "scheduled"}
        for one in content["entries"]
    ]
    return {"version": "1.5", "pg_config": content["pg_config"], "entries": entries}


def test_recordings_of_different_versions_are_said(probing: Cli, tmp_path: Path) -> None:
    old = of_torch_2_2(recording(8, 8))
    write_all(tmp_path, {0: recording(9, 8), 1: old, 2: recording(9, 8)}, "2")
    answer = probing("-t", tmp_path, "diagnose", "--json").expect(0)
    [finding] = answer.json["findings"]
    assert finding["ranks"] == [1] and "its last was #8" in finding["evidence"]
    assert "different versions" in answer.json["problems"][0], answer
    assert "1.5 of rank 1; 2.10 of ranks 0, 2" in answer.json["problems"][0], answer


def test_a_job_that_went_on_has_no_finding(probing: Cli, tmp_path: Path) -> None:
    write_all(tmp_path, {rank: recording(9, 9) for rank in range(3)}, "4")
    assert findings(probing, tmp_path) == []


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def test_hostile_and_damaged_files_run_nothing_and_are_named(probing: Cli, tmp_path: Path) -> None:
    good = {0: recording(9, 8), 2: recording(9, 8)}
    write_all(tmp_path, good, "4")
    ran = tmp_path / "ran"
    (tmp_path / "_dump_1").write_bytes(pickle.dumps({"version": "2.10", "entries": Evil(ran)}))
    (tmp_path / "_dump_3").write_bytes(pickle.dumps(recording(9, 8))[:200])
    (tmp_path / "_dump_4").write_text('{"version": "2.10", "entries": [[[[')
    (tmp_path / "_dump_5").write_bytes(b"")
    (tmp_path / "_dump_6").mkdir()
    answer = probing("-t", tmp_path, "query", "SELECT DISTINCT rank FROM python.collective_starts", "--json")
    assert sorted(row["rank"] for row in answer.expect(0).json) == [0, 2]
    for rank in (1, 3, 4, 5, 6):
        assert f"_dump_{rank} is left out" in answer.stderr, answer.stderr
    assert not ran.exists()
    [finding] = findings(probing, tmp_path)
    assert finding["ranks"] == [1], finding


def test_what_is_no_recording_is_said(probing: Cli, tmp_path: Path) -> None:
    answer = probing("-t", tmp_path, "diagnose")
    assert answer.code == 2
    assert "no recordings of torch's Flight Recorder" in answer.stderr
    (tmp_path / "_dump_0").write_bytes(b"nothing")
    answer = probing("-t", tmp_path, "diagnose")
    assert "_dump_0" in answer.stderr, answer
    assert answer.code == 1


def test_a_stack_is_not_taken_from_a_process_that_happens_to_have_the_number(
    probing: Cli, tmp_path: Path
) -> None:
    write_all(tmp_path, {rank: recording(9, 9) for rank in range(3)}, "4")
    for table in ("python.stacks", "python.backtrace", "system.process", "python.tensors"):
        answer = probing("-t", tmp_path, "query", f"SELECT count(*) AS n FROM {table}", "--json").expect(0)
        assert answer.json == [{"n": 0}], table
