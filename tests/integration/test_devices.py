"""GPUs, RDMA ports and the kernel's log. None of the hardware is here: stand-ins play the drivers' libraries
with their real ABI (src/observe/gpu/testing), and files play /sys and /dev/kmsg."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from harness import ROOT, wait_until
from users import User

pytestmark = pytest.mark.slow(120)

PATIENCE = 2


class Machine:
    """A user's job on a machine with the devices of our choice."""

    def __init__(self, user: User, folder: Path) -> None:
        self.user = user
        self.folder = folder
        for parent in (folder, *folder.parents[:2]):
            parent.chmod(0o755)
        library = folder / "nvml_stand_in.so"
        source = ROOT / "src/observe/gpu/testing/nvml_stand_in.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        self.trouble = folder / "trouble"
        self.trouble.write_text("")
        self.kmsg = folder / "kmsg"
        self.kmsg.write_text("")
        self.port = folder / "sys/class/infiniband/mlx5_0/ports/1"
        self.target = user.target()
        self.environment = {
            "PROBING_NVML": str(library),
            "PROBING_SYSFS": str(folder / "sys"),
            "PROBING_KMSG": str(self.kmsg),
            "STAND_IN_PID": str(self.target.pid),
            "STAND_IN_GROWTH": "0",
            "STAND_IN_TROUBLE": str(self.trouble),
        }

    def start(self) -> None:
        self.user("-t", self.target.pid, "inject", **self.environment).expect(0)
        self.user("config", "probing.system.interval=0.2").expect(0)

    def write_port(self, **files: object) -> None:
        for name, value in files.items():
            path = self.port / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")

    def ask(self, sql: str) -> list[list[object]]:
        answer = self.user("-t", self.target.pid, "query", "-f", "json", sql).expect(0)
        assert "cannot be read" not in answer.stderr, answer.stderr
        return [list(row.values()) for row in answer.json]

    def findings(self, name: str) -> list[dict]:
        answer = self.user("diagnose", "--json", "--patience", PATIENCE, "--class", name).json
        assert not answer["problems"], answer["problems"]
        return answer["findings"]

    def finding(self, name: str, words: str) -> dict:
        def found() -> dict | None:
            return next((f for f in self.findings(name) if words in f["evidence"]), None)

        return wait_until(found, 60, f"{name} with {words!r} is found")


@pytest.fixture
def machine(user: User, tmp_path: Path) -> Machine:
    return Machine(user, tmp_path)


def test_health_of_a_gpu_and_who_uses_it(machine: Machine) -> None:
    machine.start()
    sql = (
        "SELECT device, vendor, pci, throttle_reasons, is_throttled, ecc_corrected, retired_pages, links,"
        " links_active, pcie_width, fault FROM gpu.health ORDER BY timestamp LIMIT 1"
    )
    [row] = wait_until(lambda: machine.ask(sql), 30, "the first look at its health")
    assert row == [0, "nvidia", "00000000:65:00.0", "sw_power_cap", False, 3, 5, 4, 3, 16, None]
    [use] = machine.ask("SELECT DISTINCT is_target, memory FROM gpu.processes WHERE process = pid")
    assert use == [True, 1 << 30]
    others = machine.ask("SELECT count(*) FROM gpu.processes WHERE NOT is_target")
    assert others[0][0] > 0
    [doc] = machine.ask("SELECT count(*) FROM probing.columns WHERE table_name = 'gpu.health' AND doc = ''")
    assert doc == [0]
    assert machine.findings("gpu_fault") == [] and machine.findings("gpu_throttled") == []


def test_a_gpu_that_is_too_hot_is_named(machine: Machine) -> None:
    machine.trouble.write_text("hot")
    machine.start()
    finding = machine.finding("gpu_throttled", "sw_thermal,hw_thermal")
    assert finding["pids"] == [machine.target.pid] and finding["severity"] == "warning"
    assert "clock 1980 of 1995 MHz" in finding["evidence"] and "GPU 0 (Stand-in H100)" in finding["evidence"]
    assert "gpu.health" in finding["next"]


def test_an_xid_memory_errors_and_a_lost_gpu_are_named(machine: Machine) -> None:
    machine.start()
    sql = "SELECT max(ecc_uncorrected) FROM gpu.health"
    wait_until(lambda: machine.ask(sql) == [[0]], 30, "a look while all is well")
    machine.trouble.write_text("ecc")
    finding = machine.finding("gpu_fault", "2 new memory errors that were not corrected")
    assert finding["severity"] == "error" and finding["pids"] == [machine.target.pid]
    machine.trouble.write_text("xid")
    machine.finding("gpu_fault", "Xid 79 (the GPU has fallen off the bus)")
    machine.trouble.write_text("lost")
    machine.finding("gpu_fault", "the GPU is lost")


# What a process used since the look before: the stand-in has samples of one moment, for gpus_test.cc.
ONE_MOMENT = {"gpu.processes": "util_percent", "system.gpu": "process_util_percent"}


@pytest.mark.parametrize("table", ["gpu.health", "gpu.processes", "system.gpu"])
def test_every_column_of_the_tables_of_gpus_has_values(machine: Machine, table: str) -> None:
    machine.trouble.write_text("xid,hot")
    machine.start()
    own = f"SELECT column_name FROM probing.columns WHERE table_name = '{table}'"
    not_here = {"rank", "job", ONE_MOMENT.get(table)}  # the target is no rank
    names = [name for [name] in machine.ask(own) if name not in not_here]

    def never_filled() -> list[str]:
        [counts] = machine.ask(f"SELECT {', '.join(f'count({name})' for name in names)} FROM {table}")
        return [name for name, count in zip(names, counts, strict=True) if count == 0]

    assert len(names) > 5
    only_when_lost = ["fault"] if table == "gpu.health" else []
    wait_until(lambda: never_filled() == only_when_lost, 30, "values in all other columns")
    machine.trouble.write_text("lost")
    wait_until(lambda: never_filled() == [], 30, "values in all columns")


def test_the_kernels_log_names_devices_and_processes(machine: Machine) -> None:
    now_us = time.monotonic_ns() // 1000
    pid = machine.target.pid
    machine.kmsg.write_text(
        f"6,1,{now_us - 60_000_000},-;eth0: link becomes ready\n SUBSYSTEM=net\n"
        f"3,2,{now_us},-;NVRM: Xid (PCI:0000:65:00): 94, pid={pid}, name=python, Contained: SM\n"
        f"4,3,{now_us},-;NVRM: Xid (PCI:0000:99:00): 79, pid={pid}, name=python, another device\n"
        f"6,4,{now_us},-;Memory cgroup out of memory: Killed process {pid} (python) total-vm:1kB\n"
    )
    machine.start()
    sql = "SELECT kind, level, code, pci, pid, process_name FROM system.kernel_log ORDER BY timestamp, kind"
    said = machine.ask(sql)
    assert said[0] == [None, "info", None, None, None, None]
    in_our_namespace = said[1][4] is not None
    named = pid if in_our_namespace else None
    assert said[1:] == [
        ["oom", "info", None, None, named, "python"],
        ["xid", "error", 94, "0000:65:00", named, "python"],
        ["xid", "warning", 79, "0000:99:00", named, "python"],
    ]
    [[age]] = machine.ask("SELECT epoch(now() - max(timestamp)) FROM system.kernel_log")
    assert -5 < age < 60
    finding = machine.finding("gpu_fault", "the kernel says: NVRM: Xid (PCI:0000:65:00): 94")
    assert "another device" not in finding["evidence"]


def test_a_log_that_may_not_be_read_is_said(machine: Machine) -> None:
    machine.kmsg.unlink()
    machine.start()
    answer = machine.user("-t", machine.target.pid, "query", "SELECT * FROM system.kernel_log").expect(0)
    assert "kernel.dmesg_restrict" in answer.stderr
    assert machine.findings("gpu_fault") == [], "and it is no problem of the rules"


def test_a_port_that_loses_packets_or_goes_down_is_named(machine: Machine) -> None:
    machine.write_port(
        link_layer="Ethernet",
        state="4: ACTIVE",
        phys_state="5: LinkUp",
        rate="400 Gb/sec (4X NDR)",
        counters__port_xmit_packets=0,
        counters__port_xmit_data=0,
        counters__link_downed=0,
        hw_counters__local_ack_timeout_err=0,
    )
    machine.start()
    wait_until(lambda: machine.ask("SELECT * FROM system.rdma"), 30, "the first look at the port")
    assert machine.findings("slow_rdma") == []
    machine.write_port(
        counters__port_xmit_packets=1000,
        counters__port_xmit_data=250_000,
        hw_counters__local_ack_timeout_err=500,
    )
    finding = machine.finding("slow_rdma", "500 packets were sent again (of 1000)")
    assert finding["pids"] == [machine.target.pid] and "mlx5_0 port 1" in finding["evidence"]
    sent = machine.ask("SELECT sum(sent_bytes), max(speed), max(state) FROM system.rdma")
    assert sent == [[1_000_000, 400.0, "active"]]
    machine.write_port(state="1: DOWN", phys_state="3: Disabled", counters__link_downed=1)
    finding = machine.finding("slow_rdma", "the link is down, and was up before")
    assert finding["severity"] == "error"


def test_doctor_says_what_the_drivers_libraries_are(machine: Machine) -> None:
    text = machine.user("doctor", **machine.environment).expect(0).stdout
    assert "driver 550.54.15, 2 GPUs" in text
    assert "no GPU of amdgpu" in text and "Ascend" in text
    none = machine.user("doctor", PROBING_NVML="/nonexistent/libnvidia-ml.so.1").expect(0).stdout
    assert "no /nonexistent/libnvidia-ml.so.1 here" in none
