"""How hosts of a job find each other: all that probing.cluster.peers takes."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import pytest
from harness import Cli, wait_until
from job_hosts import FakePeer, Host, node_says, with_package
from users import User, free_port, uids

RANKS = "SELECT DISTINCT rank FROM global.python.torch_steps ORDER BY rank"
TORCH = harness.ROOT / "build/torch-venv/bin/python"

StartHosts = Callable[..., list[Host]]


@pytest.fixture
def start(public_probing: Cli) -> Iterator[StartHosts]:
    """Hosts at the same port of several addresses of this machine, as hosts of a job have one."""
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    with_package(public_probing)
    started: list[Host] = []

    def start_hosts(count: int, peers: str, **options: object) -> list[Host]:
        port = free_port()
        net = 11 + len(started)
        for number in range(count):
            place = f"127.0.0.{net + number}"
            started.append(Host(public_probing, number, place=place, port=port, **options))
        for host in started:
            host.config(peers=peers.replace("PORT", str(port)), timeout=10)
        return started

    yield start_hosts
    for host in started:
        host.user.leave()


def await_ranks(host: Host, ranks: list[int]) -> None:
    def all_there() -> bool:
        answer = host("query", "-f", "json", RANKS)
        return answer.code == 0 and [row["rank"] for row in json.loads(answer.stdout)] == ranks

    wait_until(all_there, 30, f"{host.address} sees ranks {ranks}")


def found_by(host: Host) -> dict[str, str]:
    return {row["node"]: row["found_by"] for row in host.nodes()[1:]}


def test_one_seed_is_enough(start: StartHosts) -> None:
    """Nobody names the second and the third: they come to the first, which tells of them."""
    hosts = start(3, "127.0.0.11:PORT")
    for host in hosts:
        await_ranks(host, [0, 1, 2, 3, 4, 5])
    assert found_by(hosts[2]) == {hosts[0].address: "list", hosts[1].address: "introduced"}
    assert set(found_by(hosts[0]).values()) == {"introduced"}


def test_slurm_names_the_hosts(start: StartHosts) -> None:
    """In the environment of the ranks: probingd itself was started elsewhere."""
    hosts = start(2, "slurm", SLURM_JOB_NODELIST="127.0.0.[11-12]")
    for host in hosts:
        await_ranks(host, [0, 1, 2, 3])
    assert found_by(hosts[0]) == {hosts[1].address: "slurm"}


def test_a_name_with_many_addresses(start: StartHosts, tmp_path: Path) -> None:
    """As a headless service of Kubernetes has them. Its answer changes, and so do the hosts."""
    tmp_path.chmod(0o755)
    for folder in tmp_path.parents:
        if folder.name.startswith("pytest"):
            folder.chmod(0o755)
    names = tmp_path / "hosts"
    names.write_text("127.0.0.11 workers\n")
    # Written in place: what is mounted is this file.
    seen_as_etc_hosts = f'mount --bind {names} /etc/hosts && exec "$@"'
    prefix = ("unshare", "-m", "sh", "-c", seen_as_etc_hosts, "sh")
    hosts = start(2, "dns:workers:PORT", prefix=prefix)
    wait_until(lambda: hosts[1].nodes()[1:], 30, "it sees the first")
    with names.open("a") as file:
        file.write("127.0.0.12 workers\n")
    for host in hosts:
        await_ranks(host, [0, 1, 2, 3])
    assert set(found_by(hosts[0])) == {hosts[1].address}


@contextlib.contextmanager
def etcd(folder: Path) -> Iterator[str]:
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = [
        "etcd", "--data-dir", str(folder), "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
        f"default={peer}", "--unsafe-no-fsync",
    ]  # fmt: skip
    log = folder.with_suffix(".log").open("wb")
    server = subprocess.Popen(command, stdout=log, stderr=log)

    def is_healthy() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(client + "/health", timeout=5) as answer:
            return json.load(answer)["health"] == "true"
        return False

    try:
        wait_until(is_healthy, 30, "etcd")
        yield client.removeprefix("http://")
    finally:
        server.terminate()
        server.wait(30)
        log.close()


def etcd_rows(address: str, prefix: str) -> list[dict[str, str]]:
    key = base64.b64encode(prefix.encode()).decode()
    end = base64.b64encode((prefix[:-1] + chr(ord(prefix[-1]) + 1)).encode()).decode()
    body = json.dumps({"key": key, "range_end": end}).encode()
    with urllib.request.urlopen(f"http://{address}/v3/kv/range", body, timeout=10) as answer:
        return json.load(answer).get("kvs", [])


def test_hosts_meet_in_etcd(start: StartHosts, tmp_path: Path) -> None:
    with etcd(tmp_path / "etcd") as address:
        hosts = start(2, f"etcd:{address}/probing/night-run")
        for host in hosts:
            await_ranks(host, [0, 1, 2, 3])
        source = f"etcd:{address}/probing/night-run"  # the second may have come to the first before that
        wait_until(lambda: found_by(hosts[0]) == {hosts[1].address: source}, 20, "it is seen in etcd")
        rows = etcd_rows(address, "probing/night-run/")
        assert sorted(base64.b64decode(row["value"]).decode() for row in rows) == sorted(
            host.address for host in hosts
        )
        assert all(int(row["lease"]) > 0 for row in rows), "it goes when its host does"
    # etcd has gone: those who are known are still asked, and what is missing is said.
    sources = lambda: [row for row in hosts[0].nodes() if row["state"] == "unknown"]  # noqa: E731
    wait_until(sources, 30, "etcd is missed")
    assert "ECONNREFUSED" in sources()[0]["problem"]
    answer = hosts[0]("query", "-f", "json", RANKS).expect(6)
    assert [row["rank"] for row in json.loads(answer.stdout)] == [0, 1, 2, 3]


STORE = """
import sys, pickle
from datetime import datetime, timedelta
from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import _NodeDesc, _RendezvousState
store = TCPStore("127.0.0.11", 0, is_master=True, use_libuv=sys.argv[1] == "libuv", wait_for_workers=False)
state = _RendezvousState()
for rank, host in enumerate(sys.argv[2:]):
    agent = _NodeDesc(host, 1000 + rank, 0)
    state.participants[agent] = rank
    state.last_heartbeats[agent] = datetime.now()
backend = C10dRendezvousBackend(store, "my-run")
backend.set_state(pickle.dumps(state))
print(store.port, flush=True)
for line in sys.stdin:
    print(store.num_keys(), flush=True)
"""


@pytest.mark.slow(240)  # torch is imported
@pytest.mark.skipif(
    not TORCH.exists(), reason="needs torch in build/torch-venv (tools/install_deps.sh torch)"
)
@pytest.mark.parametrize(("backend", "is_master"), [("libuv", False), ("older", True)])
def test_torchruns_agents_are_read_from_the_store(start: StartHosts, backend: str, is_master: bool) -> None:
    """Where the agents meet, or where the ranks do: torchrun has had one store for both, and two."""
    command = [str(TORCH), "-c", STORE, backend, "127.0.0.11", "127.0.0.12"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as store:
        assert store.stdout and store.stdin
        try:
            port = store.stdout.readline().strip()
            keys = lambda: (store.stdin.write("\n"), store.stdin.flush(), store.stdout.readline())[2]  # noqa: E731
            before = keys()
            variables = {"MASTER_ADDR": "127.0.0.11", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "my-run"}
            if not is_master:
                variables |= {"MASTER_PORT": "1", "PET_RDZV_ENDPOINT": f"127.0.0.11:{port}"}
            hosts = start(2, "tcpstore", **variables)
            for host in hosts:
                await_ranks(host, [0, 1, 2, 3])
            assert found_by(hosts[0]) == {hosts[1].address: f"tcpstore:127.0.0.11:{port}"}
            assert keys() == before, "nothing is written there"
            # Another run has no agents here: the master's host is what is left, and that is said.
            hosts[1].config(peers=f"tcpstore:127.0.0.11:{port}")
            for rank in hosts[1].user.targets:
                rank.kill()
            wait_until(
                lambda: "names its own host only" in found_by(hosts[1]).get(hosts[0].address, ""),
                30,
                "there is no run",
            )
        finally:
            store.kill()


# ── what leads to nobody is said ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("peers", "problem"),
    [
        ("slurm", "has SLURM_JOB_NODELIST"),
        ("tcpstore", "MASTER_ADDR"),
        ("dns:nobody.invalid:3344", "cannot find nobody.invalid"),
        ("etcd:127.0.0.1:1/jobs", "ECONNREFUSED"),
    ],
)
def test_what_leads_to_nobody_is_said(start: StartHosts, peers: str, problem: str) -> None:
    [host] = start(1, peers)
    [_, missing] = host.nodes()
    assert (missing["node"], missing["state"]) == (peers, "unknown") and problem in missing["problem"]
    answer = host("query", "-f", "json", RANKS).expect(6)
    assert [row["rank"] for row in json.loads(answer.stdout)] == [0, 1]
    assert f"{peers}: " in answer.stderr and problem in answer.stderr


@pytest.mark.parametrize("peers", ["slurm:1", "dns:workers", "etcd:host:1", "tcpstore:x:y", "zookeeper:a:1"])
def test_what_is_no_form_is_refused_when_it_is_set(start: StartHosts, peers: str) -> None:
    [host] = start(1, "none")
    answer = host("config", f"probing.cluster.peers={peers}").expect(2)
    assert f'"{peers}" does not say where other hosts are' in answer.stderr
    assert "it is " in answer.stderr, "and how it is written"


def test_introductions_of_a_liar_cost_nothing(start: StartHosts) -> None:
    """Addresses nobody answers at, far too many, and things that are no addresses."""
    lies = [*(f"127.0.0.1:{port}" for port in range(1, 40)), "0.0.0.0:1", "x y", "", *("a:1",) * 9000, 7]

    def answer_all(request: str, _: bytes) -> tuple[bytes, dict[str, str]]:
        return (node_says(knows=lies) if "/node" in request else b""), {}

    with FakePeer(answer_all) as liar:
        [host] = start(1, liar.address)
        nodes = host.nodes()
        assert [row["node"] for row in nodes[1:]] == [liar.address], "who does not answer does not count"
        answer = host("query", "SELECT count(*) FROM global.python.torch_steps").expect(6)
        assert "1 of 2 hosts answered" in answer.stderr


def test_a_stranger_is_told_of_nobody(public_probing: Cli, start: StartHosts) -> None:
    [host] = start(1, "127.0.0.11:PORT")
    script = "import urllib.request, sys; urllib.request.urlopen(sys.argv[1], timeout=10)"
    url = f"http://{host.address}/api/v1/node?from=127.0.0.1:9"
    asked = User(public_probing, next(uids)).run("/usr/bin/python3", "-c", script, url)
    assert "HTTP Error 401" in asked.stderr


def test_who_may_only_read_does_not_learn_our_token(public_probing: Cli, start: StartHosts) -> None:
    """PROBING_TOKEN, which allows everything, is shown to those whom we are led to."""
    asked: list[str] = []

    def note(_: str, __: bytes) -> tuple[bytes, dict[str, str]]:
        asked.append("trap")
        return node_says(), {}

    [host] = start(1, "127.0.0.11:PORT")
    reader = host("token", "--rights", "read").expect(0).stdout.strip()
    assert reader != host.token
    script = (
        "import urllib.request, sys\n"
        "question = urllib.request.Request(sys.argv[1], headers={'Authorization': 'Bearer ' + sys.argv[2]})\n"
        "print(urllib.request.urlopen(question, timeout=10).status)"
    )
    somebody = User(public_probing, next(uids))
    with FakePeer(note) as trap, FakePeer(lambda *_: (node_says(), {})) as other:
        for token, address in ((reader, trap.address), (host.token, other.address)):
            url = f"http://{host.address}/api/v1/node?from={address}"
            assert somebody.run("/usr/bin/python3", "-c", script, url, token).stdout == "200\n"
        nodes = [row["node"] for row in host.nodes()]
        assert other.address in nodes and trap.address not in nodes, nodes
    assert not asked
