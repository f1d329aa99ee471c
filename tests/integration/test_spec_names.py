"""Every name that the original description of the system gives its users, as written there (marked † in the
specification): commands, flags, ways in, variables, tables, columns, settings, functions. Two jobs are
started once and asked for all of it; PROBE_BG=0 is in test_ways_in.py."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness
import pytest
from harness import Cli, Target, wait_until
from users import User, free_port
from zygote import TORCH

# A job as the description has it: it logs its metrics, and nothing else is prepared.
PLAIN = """
import sys, time
sys.path.insert(0, {package!r})
import probing
def train():
    step = 0
    print("ready", flush=True)
    while True:
        step += 1
        probing.log(epoch=1, step=step, loss=1.0 / step)
        time.sleep(0.01)
train()
"""

TRAINING = """
import time
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
def train():
    print("ready", flush=True)
    while True:
        x = torch.randn(4, 8)
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        acc1 = float(loss) / 2
        time.sleep(0.01)
train()
"""


@dataclass(frozen=True)
class Started:
    process: subprocess.Popen[bytes]
    port: int = 0

    @property
    def pid(self) -> int:
        return self.process.pid


def start(command: list[str], **environment: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=harness.clean_environment(**environment))


def expect_ready(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"


@pytest.fixture(scope="module")
def training_process() -> Iterator[subprocess.Popen[bytes] | None]:
    """Started first: torch takes seconds to import, and other tests run meanwhile."""
    if not TORCH.exists():
        yield None
        return
    process = start(
        [str(TORCH), "-c", TRAINING],
        LD_PRELOAD=str(harness.BIN / "libprobing.so"),
        PROBING_TORCH_PROFILING="on,exprs=loss@train,acc1@train",
    )
    yield process
    lives = process.poll() is None
    process.kill()
    process.communicate()
    assert lives, "the training job lives through all of it"


@pytest.fixture(scope="module", autouse=True)
def plain(probing: Cli, training_process: object) -> Iterator[Started]:
    """With all variables of the description."""
    port = free_port()
    process = start(
        [sys.executable, "-c", PLAIN.format(package=str(harness.ROOT / "python"))],
        LD_PRELOAD=str(harness.BIN / "libprobe.so"),
        PROBE_PPROF="1",
        PROBE_ADDR=f"127.0.0.1:{port}",
        PROBE_BG="1",
        PROBING_SAMPLE_RATE="0.05",
    )
    expect_ready(process)
    wait_until(lambda: harness.probe_socket(process.pid) is not None, 20, "the preloaded probe is there")
    yield Started(process, port)
    lives = process.poll() is None
    process.kill()
    process.communicate()
    assert lives, "the job lives through all of it"


@pytest.fixture(scope="module")
def torch_job(training_process: subprocess.Popen[bytes] | None) -> Started:
    if training_process is None:
        pytest.skip("no torch: `make torch-venv`")
    if not hasattr(training_process, "is_ready"):
        expect_ready(training_process)
        training_process.is_ready = True  # type: ignore[attr-defined]
    return Started(training_process)


def rows_when(probing: Cli, sql: str, pid: int) -> list[dict[str, Any]]:
    """The rows, once there are some."""
    return wait_until(lambda: harness.rows(probing, sql, pid), 20, f"rows of {sql}")


# ── tables, columns, SQL ─────────────────────────────────────────────────────────────────────

TABLES = [
    "SELECT depth, func, file, lineno, frame_type, locals, tid FROM python.backtrace WHERE func = 'train'",
    "SELECT rss, vms, heap, gc_gen0, gc_gen1, gc_gen2, gc_objects FROM python.memory",
    "SELECT name, cmdline, state, ppid, user, started, threads, cpu_percent, rss, vms, fds, read_bytes, "
    "write_bytes FROM system.process",
    "SELECT * FROM system.cpu",
    "SELECT * FROM system.memory",
    "SELECT * FROM system.io",
    "SELECT * FROM system.threads",
    "SELECT * FROM memory_usage",
    "SELECT epoch, step, loss FROM training_logs",
    "SELECT * FROM training_logs WHERE timestamp > now() - interval '5 minutes'",
    "SELECT avg(loss) AS mean FROM training_logs GROUP BY epoch",
]


@pytest.mark.parametrize("sql", TABLES)
def test_a_table_of_the_description_has_rows(probing: Cli, plain: Started, sql: str) -> None:
    assert rows_when(probing, sql, plain.pid)


def test_gpus_are_a_series(probing: Cli, plain: Started) -> None:
    """Also on a machine without one: then there are no rows."""
    harness.rows(probing, "SELECT * FROM system.gpu", plain.pid)


def test_the_network_is_a_series(probing: Cli, plain: Started) -> None:
    """Loopback is not counted: a machine without another interface has the table and no rows."""
    interfaces = [line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]]
    sql = "SELECT * FROM system.network"
    if set(interfaces) == {"lo"}:
        assert harness.rows(probing, sql, plain.pid) == []
    else:
        assert rows_when(probing, sql, plain.pid)


TORCH_TABLES = [
    "SELECT step, seq, module, module_type, operation_name, stage, allocated, max_allocated, cached, "
    "duration, duration_ms, device, sampled FROM python.torch_trace WHERE stage = 'forward'",
    "SELECT operation_name, avg(duration_ms) AS ms FROM profiling_data "
    "WHERE timestamp > now() - interval '5 minutes' GROUP BY operation_name ORDER BY ms DESC",
    "SELECT tensor_count, tensor_bytes, gpu_allocated, gpu_reserved FROM python.memory",
    "SELECT value FROM python.variables WHERE name = 'loss' AND func = 'train'",
    "SELECT value FROM python.variables WHERE name = 'acc1' AND func = 'train'",
]


@pytest.mark.parametrize("sql", TORCH_TABLES)
def test_a_table_of_the_description_has_rows_of_training(probing: Cli, torch_job: Started, sql: str) -> None:
    assert rows_when(probing, sql, torch_job.pid)


def test_durations_are_seconds_and_milliseconds(probing: Cli, torch_job: Started) -> None:
    sql = "SELECT duration, duration_ms FROM python.torch_trace WHERE duration > 0 LIMIT 5"
    for row in rows_when(probing, sql, torch_job.pid):
        assert row["duration_ms"] == pytest.approx(row["duration"] * 1000)


# ── variables and settings ───────────────────────────────────────────────────────────────────


def test_variables_of_the_start_become_settings(probing: Cli, plain: Started) -> None:
    assert probing("-t", plain.pid, "config", "probing.sample_rate").expect(0).stdout.strip() == "0.05"


def test_samples_are_100_ms_apart_by_default(probing: Cli, plain: Started) -> None:
    settings = probing("-t", plain.pid, "config", "--json").expect(0).json
    listed = settings["settings"] if isinstance(settings, dict) else settings
    assert [one["default"] for one in listed if one["name"] == "probing.sample_rate"] == ["0.1"]


def test_probe_pprof_samples_from_the_start(probing: Cli, plain: Started) -> None:
    assert rows_when(probing, "SELECT tid, stack, weight FROM python.samples", plain.pid)


def test_a_variable_of_the_start_reaches_probingd(user: User) -> None:
    shown = user("config", "probing.retention_days", PROBING_RETENTION_DAYS="7").expect(0).stdout
    assert shown.strip() == "7"


SETTINGS = [
    ("probing.sample_rate", "0.05", "0.05"),
    ("probing.max_memory", "1GB", str(1 << 30)),
]


@pytest.mark.parametrize(("name", "value", "shown"), SETTINGS)
def test_a_setting_of_the_description_is_set_at_run_time(
    probing: Cli, plain: Started, name: str, value: str, shown: str
) -> None:
    probing("-t", plain.pid, "config", f"{name}={value}").expect(0)
    assert probing("-t", plain.pid, "config", name).expect(0).stdout.strip() == shown
    probing(plain.pid, "config", f"{name}={value}").expect(0)  # ENDPOINT in the first place


def test_config_sets_several_at_once(probing: Cli, plain: Started) -> None:
    probing("-t", plain.pid, "config", "probing.sample_rate=0.2", "probing.max_memory=512MB").expect(0)
    shown = probing("-t", plain.pid, "config").expect(0).stdout.split("\n")
    values = {line.split()[0]: line.split()[1] for line in shown if line.startswith("probing.")}
    assert (values["probing.sample_rate"], values["probing.max_memory"]) == ("0.2", str(512 << 20))


# ── the address: nc, HTTP, targets by address ────────────────────────────────────────────────


def wait_for_port(port: int) -> None:
    def is_open() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_open, 20, "PROBE_ADDR is served")


def test_probe_addr_answers_nc(plain: Started) -> None:
    wait_for_port(plain.port)
    with socket.create_connection(("127.0.0.1", plain.port), timeout=20) as connection:
        connection.sendall(f"use {plain.pid}\nSELECT 6 * 7 AS answer\nhelp\n".encode())
        connection.shutdown(socket.SHUT_WR)
        said = connection.makefile().read()
    assert "42" in said and "bt [PID]" in said


def test_probe_addr_answers_a_browser(plain: Started) -> None:
    wait_for_port(plain.port)
    connection = http.client.HTTPConnection("127.0.0.1", plain.port, timeout=20)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert answer.status == 200 and "text/html" in answer.headers["Content-Type"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_target_is_named_by_its_address(probing: Cli, plain: Started, host: str) -> None:
    port = plain.port
    wait_for_port(port)
    if host == "[::1]":
        port = free_port()
        probing("serve", "--listen", f"[::1]:{port}", "--background").expect(0)
    for words in (("-t", f"{host}:{port}/{plain.pid}", "status"), (f"{host}:{port}/{plain.pid}", "status")):
        assert str(plain.pid) in probing(*words).expect(0).stdout
    if host == "[::1]":
        probing("serve", "--listen", f"[::1]:{port}", "--close").expect(0)


# ── ways in, commands, the older names ───────────────────────────────────────────────────────

StartTarget = Callable[..., Target]
WAYS_IN: list[tuple[str, list[str]]] = [
    ("probing", ["-t", "PID", "inject"]),
    ("probing", ["PID", "inject"]),
    ("probe", ["PID"]),
    ("probe", ["--dll", str(harness.BIN / "libprobe.so"), "PID"]),
]


@pytest.mark.parametrize(("program", "words"), WAYS_IN)
def test_a_way_in_of_the_description(
    probing: Cli, target: StartTarget, program: str, words: list[str]
) -> None:
    busy = target("busy")
    said = probing(*(str(busy.pid) if w == "PID" else w for w in words), program=program).expect(0)
    assert len((said.stdout + said.stderr).splitlines()) == 1, "one line with what was done"
    assert probing("-t", busy.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    busy.expect_progress()


@pytest.mark.parametrize("library", ["libprobing.so", "libprobe.so"])
def test_the_library_is_preloaded_by_both_names(probing: Cli, target: StartTarget, library: str) -> None:
    busy = target("busy", LD_PRELOAD=str(harness.BIN / library))
    wait_until(lambda: harness.probe_socket(busy.pid) is not None, 20, "a probe")
    assert probing(busy.pid, "eval", "6 * 7").expect(0).stdout == "42\n"


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    venv = tmp_path_factory.mktemp("named") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    tool = [sys.executable, str(harness.ROOT / "tools/install_hook.py"), "--python", str(venv / "bin/python")]
    subprocess.run([*tool, "--library", str(harness.BIN / "libprobing.so")], check=True, capture_output=True)
    return venv / "bin/python"


@pytest.mark.parametrize("variable", ["PROBING", "PROBE"])
def test_a_variable_starts_python_with_the_probe(hooked: Path, variable: str) -> None:
    command = [str(hooked), "-c", "print('libprobing' in open('/proc/self/maps').read())"]
    said = subprocess.run(command, env=harness.clean_environment(**{variable: "1"}), capture_output=True)
    assert (said.stdout, said.stderr) == (b"True\n", b"")


def test_probe_dump_prints_the_python_stacks(probing: Cli, plain: Started) -> None:
    assert "train" in probing("--dump", plain.pid, program="probe").expect(0).stdout


def test_probe_pause_serves_a_debugger_on_the_stack(probing: Cli, target: StartTarget) -> None:
    job = target("training")
    answer = probing("--pause", job.pid, program="probe", stdin="where\nprint lr\n").expect(0)
    assert "train (" in answer.stdout and "0.001" in answer.stdout
    job.expect_progress("steps")


# ── the package ──────────────────────────────────────────────────────────────────────────────


def test_torch_profiling_is_enabled_from_code(probing: Cli, torch_job: Started) -> None:
    path = str(harness.ROOT / "python")
    code = (
        f"import sys; sys.path.insert(0, {path!r}); import probing; probing.enable_torch_profiling(rate=1.0)"
    )
    probing("-t", torch_job.pid, "eval", code).expect(0)
    shown = probing("-t", torch_job.pid, "config", "probing.torch.profiling").expect(0).stdout
    assert shown.strip() == "on,rate=1"
