"""`probing diagnose`: each kind of trouble is provoked, and must be named with its rank."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from harness import BIN, ROOT, TARGETS, Cli, Target, ask_daemon, rows, wait_until
from ranks import Job
from users import User

StartTarget = Callable[..., Target]
StartJob = Callable[..., Job]
PATIENCE = 2
TORCH = ROOT / "build/torch-venv/bin/python"

pytestmark = pytest.mark.slow(120)


@pytest.fixture(scope="module", autouse=True)
def quick_series(probing: Cli) -> None:
    """What is looked at once a second is looked at more often, so that nothing takes minutes."""
    probing("config", "probing.system.interval=0.2").expect(0)
    yield
    probing("config", "probing.system.interval=1").expect(0)


@pytest.fixture
def job(target: StartTarget, tmp_path: Path) -> StartJob:
    return lambda world=3, trouble="none", who=-1: Job(target, tmp_path, world, trouble, who)


def named(probing: Cli, one: Job, name: str, rule: str | None = None) -> dict:
    """The finding of this class, as soon as there is one."""

    def found() -> dict | None:
        all_of_them = list(one.findings(probing, "--patience", PATIENCE, "--class", name))
        return next((f for f in all_of_them if rule in (None, f["rule"])), None)

    return wait_until(found, 60, f"{name} is found")


def test_a_collective_hang_names_the_rank_that_did_not_come(probing: Cli, job: StartJob) -> None:
    one = job(4, "hang", 2)
    finding = named(probing, one, "collective_hang")
    assert finding["ranks"] == [2] and finding["severity"] == "error"
    assert "3 of 4 ranks wait in all_reduce #26 of group 0" in finding["evidence"]
    assert "rank 2 has not entered it, is in wait_for_ever" in finding["evidence"]
    assert finding["next"] == f"probing -t {one.pids[2]} backtrace"


def test_a_rank_that_died_is_missing_in_a_collective_and_the_first_to_die(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    one = Job(target, tmp_path, 3, "hang", 1)
    one.await_steps(25)
    one.ranks[1].kill()
    finding = named(probing, one, "first_death")
    assert finding["ranks"] == [1] and "SIGKILL" in finding["evidence"]
    assert "rank 1 has ended" in named(probing, one, "collective_hang")["evidence"]


def test_a_job_that_was_started_again_is_judged_by_its_last_life(
    probing: Cli, target: StartTarget, tmp_path: Path
) -> None:
    first = Job(target, tmp_path, 3, "hang", 0)
    first.await_steps(25, rank=1)
    for rank in first.ranks:
        rank.kill()
    again = Job(target, tmp_path, 3, "hang", 2, again=first)
    finding = named(probing, again, "collective_hang")
    assert finding["ranks"] == [2] and "2 of 3 ranks wait in all_reduce" in finding["evidence"]
    [death] = first.findings(probing, "--class", "first_death")
    assert death["severity"] == "warning" and death["evidence"].endswith("; it was started again since")


def test_different_operations_at_the_same_place(probing: Cli, job: StartJob) -> None:
    started = job(3, "mismatch", 1)

    def all_have_come() -> dict | None:  # of two that differ nobody knows which is right
        finding = named(probing, started, "collective_mismatch")
        return finding if finding["ranks"] == [1] else None

    finding = wait_until(all_have_come, 60, "the one that differs from most is named")
    assert "#26" in finding["evidence"] and "rank 1 calls broadcast" in finding["evidence"]


@pytest.mark.load_dependent("a rank that gets no CPU is the straggler in truth")
def test_the_straggler_is_the_one_that_waits_least(probing: Cli, job: StartJob) -> None:
    started = job(3, "straggler", 1)
    # The first few steps may say something else.
    wait_until(
        lambda: "most of the difference is in forward" in named(probing, started, "straggler")["evidence"],
        what="the part of the step is named",
    )
    assert named(probing, started, "straggler")["ranks"] == [1]


def test_a_job_that_waits_for_its_data(probing: Cli, job: StartJob) -> None:
    finding = named(probing, job(1, "data_stall", 0), "data_stall")
    assert finding["ranks"] == [0] and "% of the time" in finding["evidence"]


def test_threads_that_wait_for_each_other(probing: Cli, job: StartJob) -> None:
    finding = named(probing, job(1, "deadlock", 0), "hang", "hang_deadlock")
    assert finding["ranks"] == [0]
    assert (
        finding["evidence"].startswith("2 threads wait for locks")
        and "take (troubles.py" in finding["evidence"]
    )


def test_a_thread_that_keeps_the_gil(probing: Cli, job: StartJob) -> None:
    one = job(1, "gil", 0)
    probing("-t", one.pids[0], "config", "probing.python.memory_interval=0.05", timeout=60)
    finding = named(probing, one, "hang", "hang_gil")
    assert "keeps the GIL in keep_the_gil" in finding["evidence"]


@pytest.mark.skipif(sys.version_info < (3, 8), reason="needs os.posix_spawn")
def test_a_process_stuck_in_the_kernel(probing: Cli, job: StartJob, tmp_path: Path) -> None:
    one = job(1, "kernel", 0)
    finding = named(probing, one, "hang", "hang_kernel")
    assert "stuck in the kernel (D state" in finding["evidence"]
    with (tmp_path / f"{one.name}-0" / "fifo").open("wb"):
        pass  # so that it can be ended


def test_a_stopped_process(probing: Cli, job: StartJob) -> None:
    one = job(1)
    one.await_steps(5)
    os.kill(one.pids[0], signal.SIGSTOP)
    try:
        finding = named(probing, one, "hang", "hang_kernel")
        assert "is stopped" in finding["evidence"] and finding["next"] == f"kill -CONT {one.pids[0]}"
    finally:
        os.kill(one.pids[0], signal.SIGCONT)


def test_steps_that_have_stopped(probing: Cli, job: StartJob) -> None:
    finding = named(probing, job(1, "hang", 0), "hang", "hang_progress")
    assert "since step 24" in finding["evidence"] and "wait_for_ever (troubles.py" in finding["evidence"]


def test_memory_that_grows(probing: Cli, job: StartJob) -> None:
    one = job(1, "memory_growth", 0)
    finding = named(probing, one, "memory_growth")
    one.ranks[0].kill()  # before it has it all
    assert finding["ranks"] == [0] and "MB/s" in finding["evidence"]


@pytest.mark.parametrize(
    ("trouble", "words"), [("nan", "loss is NaN since step 25"), ("spike", "loss jumped to")]
)
def test_a_loss_that_is_no_number_or_jumps(probing: Cli, job: StartJob, trouble: str, words: str) -> None:
    one = job(1, trouble, 0)
    found: list[dict] = []

    def said() -> bool:
        found[:] = one.findings(probing, "--class", "nan")
        return bool(found)

    wait_until(said, 30, trouble)
    assert words in found[0]["evidence"] and found[0]["ranks"] == [0]


def test_checkpoints_that_take_the_time(probing: Cli, job: StartJob) -> None:
    one = job(3, "slow_checkpoint", 1)
    finding = named(probing, one, "slow_checkpoint")
    assert finding["ranks"] == [1]
    assert "calls of torch.save()" in finding["evidence"] and "/checkpoints/last.pt" in finding["evidence"]
    assert finding["next"].startswith(f"probing -t {one.pids[1]} query")


def test_memory_of_a_gpu_that_grows(user: User, tmp_path: Path) -> None:
    """There is no GPU here: a stand-in plays the driver's library (src/observe/gpu/testing)."""
    library = tmp_path / "nvml_stand_in.so"
    source = ROOT / "src/observe/gpu/testing/nvml_stand_in.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    one = user.target()
    gpu = {"PROBING_NVML": str(library), "STAND_IN_PID": str(one.pid), "STAND_IN_GROWTH": "100"}
    user("-t", one.pid, "inject", **gpu).expect(0)
    user("config", "probing.system.interval=0.2").expect(0)
    asked = ("diagnose", "--json", "--patience", 1, "--class", "device_memory_growth")
    finding = wait_until(lambda: next(iter(user(*asked).json["findings"]), None), 60, "the growth is found")
    assert finding["pids"] == [one.pid] and finding["severity"] == "warning"
    assert "memory on GPU 0 (Stand-in H100) grows by 1" in finding["evidence"]
    assert finding["next"] == f"probing -t {one.pid} memory --leaks"


def test_a_garbage_collector_that_takes_the_time(probing: Cli, job: StartJob) -> None:
    finding = named(probing, job(1, "gc_pause", 0), "gc_pause")
    assert "garbage collections took" in finding["evidence"]


def test_a_process_that_does_not_get_the_cpu(probing: Cli, target: StartTarget) -> None:
    core = str(min(os.sched_getaffinity(0)))
    busy = target("busy", prefix=["taskset", "-c", core])
    rivals = [
        subprocess.Popen(["taskset", "-c", core, sys.executable, "-c", "while True: pass"]) for _ in range(3)
    ]
    try:
        probing("-t", busy.pid, "inject").expect(0)

        def found() -> list[dict]:
            answer = probing(
                "-t", busy.pid, "diagnose", "--patience", PATIENCE, "--class", "cpu_contention", "--json"
            )
            return answer.expect(0).json["findings"]

        [finding] = wait_until(found, 60, "contention is found")
        assert finding["pids"] == [busy.pid] and "wants" in finding["evidence"]
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()


def test_the_first_rank_to_die_and_why(probing: Cli, tmp_path: Path) -> None:
    started: list[Target] = []

    def start(name: str, *arguments: object, **environment: str) -> Target:
        command = [sys.executable, str(TARGETS / f"target_{name}.py"), *map(str, arguments)]
        started.append(Target(command, tmp_path, environment))
        if environment["RANK"] == "1":
            started[-1].will_end(1)
        return started[-1]

    try:
        finding = named(probing, Job(start, tmp_path, 2, "death", 1), "first_death")
        assert finding["ranks"] == [1]
        assert "ValueError: a batch without labels" in finding["evidence"]
    finally:
        for each in started:
            each.kill()


@pytest.mark.load_dependent("a rank that gets no CPU is a straggler in truth")
def test_a_healthy_job_raises_no_alarm(probing: Cli, job: StartJob) -> None:
    one = job(3)
    one.await_steps(300)
    # The machine may be short of CPUs in truth, so this class says nothing about the job.
    found = [f for f in one.findings(probing, "--patience", 5) if f["class"] != "cpu_contention"]
    assert found == []


def test_people_programs_and_agents_get_the_same(probing: Cli, job: StartJob) -> None:
    one = job(1, "nan", 0)
    wait_until(lambda: list(one.findings(probing, "--class", "nan")), 30, "it is found")
    text = probing("-t", one.pids[0], "diagnose").expect(0).stdout
    assert "nan rank 0\n  loss is NaN since step 25" in text and "  next: probing -t" in text
    http = ask_daemon("GET", f"diagnose?target={one.pids[0]}&class=nan")["findings"]
    assert [f["class"] for f in http] == ["nan"]
    other = probing("-t", os.getpid(), "diagnose", "--class", "nan").expect(0).stdout
    assert other.startswith("nothing found (1 rules)")
    assert "no rule has the class" in probing("diagnose", "--class", "typo").expect(2).stderr


def test_users_add_rules_of_their_own(user: User) -> None:
    target = user.target()
    folder = user.folder.parent / f"probing-config-{user.uid}"
    rules = folder / "probing/diagnose"
    rules.mkdir(parents=True)
    try:
        (rules / "mine.sql").write_text(
            "-- class: mine\n-- about: a rule of one's own\n"
            "SELECT pid AS pids, 'it lives' AS evidence FROM global.probing.targets WHERE state = 'live'\n"
        )
        (rules / "broken.sql").write_text("-- class: broken\nSELECT nothing FROM nowhere\n")
        user("-t", target.pid, "inject", XDG_CONFIG_HOME=str(folder)).expect(0)
        answer = user("diagnose", "--json", XDG_CONFIG_HOME=str(folder)).expect(0).json
    finally:
        shutil.rmtree(folder)
    [finding] = [f for f in answer["findings"] if f["class"] == "mine"]
    assert finding["pids"] == [target.pid]
    assert finding["evidence"] == "it lives" and finding["severity"] == "warning"
    [problem] = answer["problems"]
    assert "broken" in problem


@pytest.mark.slow(240)  # importing torch takes seconds, on a machine that has nothing else to do
@pytest.mark.skipif(
    not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
)
def test_a_hang_of_a_real_job_on_gloo(probing: Cli, target: StartTarget, tmp_path: Path) -> None:
    name = f"gloo-{os.getpid()}"
    traced = {"LD_PRELOAD": str(BIN / "libprobing.so"), "PROBING_TORCH_PROFILING": "steps"}
    with ThreadPoolExecutor() as together:  # each is ready only when all have met
        ranks = list(
            together.map(
                lambda rank: target(
                    *("torch_ranks", tmp_path / "store", 1),
                    python=str(TORCH),
                    RANK=str(rank),
                    WORLD_SIZE="2",
                    TORCHELASTIC_RUN_ID=name,
                    **traced,
                ),
                range(2),
            )
        )
    pids = [rank.pid for rank in ranks]
    seen = f"SELECT DISTINCT pid FROM global.python.collective_starts WHERE pid IN ({pids[0]}, {pids[1]})"
    wait_until(lambda: len(rows(probing, seen)) == 2, 60, "both ranks are traced")
    (tmp_path / "store.away").touch()

    def found() -> list[dict]:
        options = ("--patience", PATIENCE, "--class", "collective_hang", "--json")
        answer = probing("diagnose", *options, timeout=60).expect(0).json
        return [each for each in answer["findings"] if set(each["pids"]) & set(pids)]

    [finding] = wait_until(found, 90, "the hang is found")
    assert finding["ranks"] == [1]
    assert "1 of 2 ranks wait in all_reduce" in finding["evidence"]
    assert "rank 1 has not entered it, is in stay_away (target_torch_ranks.py" in finding["evidence"]
    sql = (
        "SELECT count(*) AS n FROM global.python.collectives AS c JOIN global.python.collective_starts AS s"
        f" USING (pid, timestamp_ns) WHERE pid = {pids[0]} AND (c.seq <> s.seq OR c.op <> s.op)"
    )
    assert rows(probing, sql) == [{"n": 0}], "an operation has the same number when it begins and ends"


def test_a_death_that_somebody_asked_for_is_told_only_when_asked(probing: Cli, target: StartTarget) -> None:
    one = target("sleep")
    probing("-t", one.pid, "inject").expect(0)
    seen = f"SELECT pid FROM global.system.memory WHERE pid = {one.pid}"
    wait_until(lambda: rows(probing, seen), 30, "it is watched")
    one.kill()

    def told(*options: str) -> list[str]:
        answer = probing("diagnose", "--json", *options).json
        return [f["class"] for f in answer["findings"] if one.pid in f["pids"]]

    wait_until(lambda: told("--all") == ["first_death"], 30, "the death is known")
    assert told() == []
    assert told("--class", "first_death") == ["first_death"]


def test_an_empty_answer_without_a_probe_says_so(probing: Cli, target: StartTarget) -> None:
    one = target("sleep")
    answer = probing("-t", one.pid, "query", "SELECT * FROM python.torch_steps").expect(0)
    assert f"process {one.pid} has no probe" in answer.stderr
    assert f"`probing -t {one.pid} inject`" in answer.stderr
    probing("-t", one.pid, "inject").expect(0)
    answer = probing("-t", one.pid, "query", "SELECT * FROM python.torch_steps").expect(0)
    assert "has no probe" not in answer.stderr
