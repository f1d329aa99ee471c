"""Authority is the owner's: nothing that another uid controls opens a port, sets a secret, chooses a library
or fills memory, and no target, whoever's it is, takes a daemon away. The rows of the table in
docs/guides/security.md, "What others control"; each test names its row."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import harness
import pytest
from harness import Cli, wait_until
from serving import Served, as_stranger, read_all
from users import PYTHON, SLEEP, User, free_port, uids

TOKEN = "a-token-of-the-stranger"

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can be several users")


@pytest.fixture
def other(public_probing: Cli) -> Iterator[User]:
    """A second user."""
    somebody = User(public_probing, next(uids))
    yield somebody
    somebody.leave()


@pytest.fixture
def root(public_probing: Cli) -> Iterator[Cli]:
    """Root's own daemon, of the programs that others can run."""
    for pid in harness.daemons([public_probing.bin, harness.BIN]):
        if harness.proc_status(pid, "Uid").split()[0] == "0":
            harness.stop_process(pid)
    yield public_probing
    for pid in harness.daemons([public_probing.bin]):
        if harness.proc_status(pid, "Uid").split()[0] == "0":
            harness.stop_process(pid)


def listening(probing: Cli | User) -> str:
    return str(probing("status", "--json").expect(0).json["listening"])


# ── environment of a target ──────────────────────────────────────────────────────────────────


def test_root_s_daemon_takes_no_request_of_another_user(root: Cli, user: User) -> None:
    """Row "environment of a process of another user". The break: a port opened, root's token replaced."""
    port = free_port()
    wanted = {"PROBING_ADDR": f"127.0.0.1:{port}", "PROBING_TOKEN": TOKEN, "PROBING_SAMPLE_RATE": "0.001"}
    process = user.target(**wanted)
    user("-t", process.pid, "inject").expect(0)
    for pid in user.daemons():
        harness.stop_process(pid)  # the port is free again
    before = root("token", "--json").expect(0).json
    listed = root("list", "--json").expect(0).json
    assert process.pid not in [one["pid"] for one in listed], "nothing of others is attached to by itself"
    # Root asks, and sees; still nothing is requested.
    assert root("-t", process.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    assert process.pid in [one["pid"] for one in root("list", "--json").expect(0).json]
    time.sleep(0.5)  # the daemon looks at its targets every 0.1 s
    assert listening(root) == ""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert root("token", "--json").expect(0).json == before
    # Nor is the token taken where root itself has opened an address.
    root("serve", "--listen", port, "--background").expect(0)
    served = Served(user, port, 0, "")
    assert as_stranger(served, f"Authorization: Bearer {TOKEN}")[0] == 401
    assert as_stranger(served, f"Authorization: Bearer {before['read']}")[0] == 200
    root("serve", "--listen", port, "--close").expect(0)


def test_a_token_of_an_own_target_is_valid_beside_the_daemon_s(user: User) -> None:
    """Row "environment of a process of the same user": it may open a port; it replaces no secret."""
    before = user("token", "--json").expect(0).json
    port = free_port()
    process = user.target(PROBING_ADDR=f"127.0.0.1:{port}", PROBING_TOKEN=TOKEN)
    user("-t", process.pid, "inject").expect(0)
    wait_until(lambda: f"127.0.0.1:{port}" in listening(user), 20, "the address it asked for")
    served = Served(user, port, process.pid, "")
    assert as_stranger(served, f"Authorization: Bearer {TOKEN}")[0] == 200
    assert as_stranger(served, f"Authorization: Bearer {before['eval']}")[0] == 200
    assert as_stranger(served, "Authorization: Bearer neither-of-the-two")[0] == 401
    assert user("token", "--json").expect(0).json == before


def test_a_container_s_root_requests_nothing_of_the_host_s(root: Cli) -> None:
    """Row "environment of a process in other namespaces": uid 0 there is uid 0 here, and not its owner."""
    port = free_port()
    environment = harness.clean_environment(PROBING_ADDR=f"127.0.0.1:{port}", PROBING_TOKEN=TOKEN)
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--net", PYTHON, "-c", SLEEP]
    shell = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    try:
        assert shell.stdout is not None and shell.stdout.readline() == b"ready\n"
        [pid] = harness.children_of(shell.pid)
        root("-t", pid, "inject").expect(0)
        assert root("-t", pid, "eval", "6 * 7").expect(0).stdout == "42\n"
        time.sleep(0.5)
        assert listening(root) == ""
    finally:
        shell.kill()
        shell.communicate()


# ── runtime directories ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["a stranger's directory", "a link", "an own one that all may write"])
def test_a_runtime_directory_that_others_can_write_is_not_used(user: User, other: User, how: str) -> None:
    """Row "the runtime directory": neither socket nor token nor log go there; nothing there is believed."""
    elsewhere = Path(f"/tmp/elsewhere-{user.uid}")
    elsewhere.mkdir(mode=0o777)
    elsewhere.chmod(0o777)
    first, second, _ = harness.socket_directories(user.uid)
    try:
        if how == "a link":
            os.symlink(elsewhere, first)
            os.lchown(first, other.uid, other.uid)
        else:
            first.mkdir()
            owner = other.uid if how == "a stranger's directory" else user.uid
            os.chown(first, owner, owner)
            first.chmod(0o777)
        target = user.probed_target()
        assert user("-t", target.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
        assert len(user("token").expect(0).stdout.strip()) >= 16
        assert list(elsewhere.iterdir()) == [] and list(first.iterdir()) == []
        assert (second / "token").exists() and (second / "probingd.sock").exists()
        assert second.stat().st_mode & 0o777 == 0o700
    finally:
        with suppress(OSError):
            first.unlink()
        shutil.rmtree(elsewhere)


# ── a probe that is none ─────────────────────────────────────────────────────────────────────

# Listens where a probe would, and does what argv[1] says.
FAKE = r"""
import array, ctypes, os, socket, struct, sys, time
kind, folder = sys.argv[1], sys.argv[2]
os.makedirs(folder, mode=0o700, exist_ok=True)
def frame(number, **fields):
    body = struct.pack('<I', number)
    for key, value in fields.items():
        body += struct.pack('<HI', len(key), len(value)) + key.encode() + value
    return struct.pack('<I', len(body)) + body
def memory_file(size, seal):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(319, b'probing-ring', 3)
    os.ftruncate(fd, size)
    if size > 1 << 20:
        # The head of a ring, with a dictionary of nearly all of it.
        magic = 0x31474e4952425250
        os.pwrite(fd, struct.pack('<QIIqQqIIQQ', magic, 1, 0x01020304, os.getpid(), 0, 0, 1, 0, 0, 0), 0)
        os.pwrite(fd, struct.pack('<QQIIII', 69632, (size - 69632) // 64 * 64, 4, 0, 1, 0), 4096)
    if seal:
        import fcntl
        fcntl.fcntl(fd, 1033, 2)
    return fd
listener = socket.socket(socket.AF_UNIX)
path = f'{folder}/{os.getpid()}.sock'
listener.bind(path + '~')
os.chmod(path + '~', 0o600)
listener.listen(0 if kind == 'full' else 64)
os.rename(path + '~', path)
if kind == 'full':
    waiting = []
    for _ in range(3):
        visitor = socket.socket(socket.AF_UNIX)
        visitor.setblocking(False)
        try:
            visitor.connect(path)
        except OSError:
            pass
        waiting.append(visitor)
print('ready', flush=True)
if kind == 'full':
    time.sleep(600)
import select
connections = {}
while True:
    ready, _, _ = select.select([listener, *connections], [], [])
    for each in ready:
        if each is listener:
            connection, _ = listener.accept()
            connections[connection] = b''
            continue
        data = each.recv(65536)
        if not data:
            del connections[each]
            each.close()
            continue
        connections[each] += data
        while len(connections[each]) >= 8:
            length, number = struct.unpack('<II', connections[each][:8])
            if len(connections[each]) < 4 + length:
                break
            body = connections[each][8:4 + length]
            connections[each] = connections[each][4 + length:]
            if kind == 'silent' or (kind == 'deaf' and b'ptracer' not in body and b'rings' not in body):
                continue
            if kind == 'large' and b'hello' in body:
                try:
                    each.sendall(struct.pack('<I', 60 << 20) + b'x' * (59 << 20))
                except OSError:
                    pass
                continue
            answer = frame(number, version=b'0', python=b'3', how=b'fake\x1b]0;owned\x07\nforged')
            if b'rings' in body:
                sizes = {'unsealed': (1 << 30, False), 'sparse': (1 << 39, True)}
                fds = [memory_file(*sizes.get(kind, (4096, True)))]
                if kind == 'two':
                    fds.append(os.open('/dev/null', os.O_RDONLY))
                rights = array.array('i', fds)
                each.sendmsg([frame(number)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
                for fd in fds:
                    os.close(fd)
            else:
                each.sendall(answer)
"""


def fake_probe(user: User, kind: str) -> subprocess.Popen[bytes]:
    command = [*user.prefix, PYTHON, "-c", FAKE, kind, str(user.folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    user.targets.append(process)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


def rss_bytes(pid: int) -> int:
    return int(harness.proc_status(pid, "VmRSS").split()[0]) * 1024


@pytest.mark.parametrize("kind", ["unsealed", "sparse", "silent", "deaf", "large", "two"])
def test_a_fake_probe_costs_nobody_else_anything(user: User, kind: str) -> None:
    """Row "the socket of a probe, and what comes over it"."""
    honest = user.probed_target()
    daemon = user.daemon()
    fake = fake_probe(user, kind)
    wait_until(lambda: user.listed(fake.pid) is not None or kind == "large", 20, "it is seen")
    started = time.monotonic()
    for _ in range(3):
        assert user("query", "-f", "csv", "SELECT 1 AS x").expect(0).stdout.split() == ["x", "1"]
        answer = user("query", "-f", "csv", "SELECT count(*) AS n FROM system.process")
        assert answer.code == 0, answer
    drops = user("query", "-f", "csv", f"SELECT count(*) AS n FROM probing.drops WHERE pid = {honest.pid}")
    assert int(drops.expect(0).stdout.split()[1]) > 0, "the rows of others are read"
    assert user("-t", honest.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    assert time.monotonic() - started < 20
    assert rss_bytes(daemon) < 200 << 20, "nothing of its size is kept"
    assert daemon in user.daemons(), "it is the same daemon"


def test_forty_full_backlogs_hold_up_nobody(user: User) -> None:
    """Row "the socket of a probe": the daemon's one thread never waits for a connection. It took 80 s."""
    daemon = user.daemon()
    for _ in range(40):
        fake_probe(user, "full")
    started = time.monotonic()
    user("list").expect(0)
    assert user("query", "-f", "csv", "SELECT 1 AS x").expect(0).stdout.split() == ["x", "1"]
    assert time.monotonic() - started < 10
    assert daemon in user.daemons()


def test_descriptors_that_come_along_are_closed(user: User) -> None:
    """Row "descriptors that a probe sends": of two one is kept, and none when it is not asked for."""
    daemon = user.daemon()

    def null_files() -> int:
        return list(harness.open_files(daemon).values()).count("/dev/null")

    before = null_files()
    for _ in range(5):
        fake = fake_probe(user, "two")
        wait_until(lambda: (user.listed(fake.pid) or {}).get("state") == "live", 20, "it is met")  # noqa: B023
    assert null_files() == before


def test_an_eval_in_a_silent_probe_ends(user: User) -> None:
    """Row "the answers of a probe": an evaluation without --timeout waited without end."""
    fake = fake_probe(user, "deaf")
    wait_until(lambda: (user.listed(fake.pid) or {}).get("state") == "live", 20, "it is met")
    started = time.monotonic()
    answer = user("-t", fake.pid, "eval", "6 * 7", timeout=60)
    assert answer.code == 5, answer
    assert time.monotonic() - started < 40


# ── who is at the other end ──────────────────────────────────────────────────────────────────

HASTY = """
import socket, sys
for _ in range(int(sys.argv[2])):
    with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as visit:
        visit.sendall(sys.argv[3].encode().decode('unicode_escape').encode())
"""


def test_a_visitor_that_has_gone_is_not_root(served: Served, tmp_path: Path) -> None:
    """Row "TCP connections": of a closed socket the kernel says that uid 0 owns it. A stranger who sends a
    request and leaves before it is looked at was taken for root."""
    marker = Path(f"/tmp/marker-{served.user.uid}")
    body = json.dumps({"target": served.pid, "code": f"open({str(marker)!r}, 'w').close()"})
    request = (
        f"POST /api/v1/eval HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nContent-Type: application/json\\r\\n"
        f"Content-Length: {len(body)}\\r\\n\\r\\n{body}"
    )
    stranger = User(Cli(served.user.bin), next(uids))
    [daemon] = served.user.daemons()
    # Stopped, so that all of them have gone before the first is looked at.
    os.kill(daemon, 19)
    try:
        done = stranger.run(PYTHON, "-c", HASTY, str(served.port), "20", request)
        assert done.returncode == 0, done.stderr
    finally:
        os.kill(daemon, 18)
    assert served.json("POST", "/api/v1/eval", {"target": served.pid, "code": "6 * 7"})["value"] == "42"
    assert not marker.exists(), "a stranger's code ran"
    marker.unlink(missing_ok=True)


def test_a_probe_answers_its_user_and_root_only(user: User, other: User) -> None:
    """Row "connections to a probe": also when the directory lets others through."""
    target = user.probed_target()
    path = user.folder / f"{target.pid}.sock"
    user.folder.chmod(0o755)
    path.chmod(0o666)
    script = (
        "import socket, struct, sys\n"
        "s = socket.socket(socket.AF_UNIX); s.settimeout(10); s.connect(sys.argv[1])\n"
        "body = struct.pack('<IHI', 1, 4, 5) + b'verbhello'\n"
        "try:\n"
        "    s.sendall(struct.pack('<I', len(body)) + body); print(len(s.recv(4096)))\n"
        "except OSError: print(0)\n"
    )
    assert other.run(PYTHON, "-c", script, str(path)).stdout == "0\n"
    mine = user.run(PYTHON, "-c", script, str(path)).stdout
    assert int(mine) > 0
    path.chmod(0o600)
    user.folder.chmod(0o700)


def test_a_daemon_answers_its_user_and_root_only(user: User, other: User) -> None:
    """Row "the daemon's unix socket"."""
    user("status").expect(0)
    path = user.folder / "probingd.sock"
    user.folder.chmod(0o755)
    path.chmod(0o666)
    command = ["curl", "-sS", "--max-time", "10", "--unix-socket", str(path), "http://x/api/v1/health"]
    assert other.run(*command).stdout == ""
    assert json.loads(user.run(*command).stdout)["status"] == "ok"
    path.chmod(0o600)
    user.folder.chmod(0o700)


def test_a_command_talks_to_no_daemon_of_another_user(user: User, other: User) -> None:
    """Row "the daemon's unix socket": who listens there is checked by the command, too."""
    target = user.target()
    user.folder.mkdir(mode=0o700)
    os.chown(user.folder, user.uid, user.uid)
    script = (
        "import socket, sys, time\n"
        "s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(9); print('ready', flush=True)\n"
        "c, _ = s.accept(); print(len(c.recv(4096)), flush=True); time.sleep(60)\n"
    )
    user.folder.chmod(0o777)
    path = user.folder / "probingd.sock"
    process = subprocess.Popen([*other.prefix, PYTHON, "-c", script, str(path)], stdout=subprocess.PIPE)
    other.targets.append(process)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    path.chmod(0o666)
    user.folder.chmod(0o700)
    user("-t", target.pid, "inject").expect(0)
    assert user("-t", target.pid, "eval", "6 * 7").expect(0).stdout == "42\n", "a daemon of its own"
    assert process.stdout.readline() in (b"0\n", b""), "and it was told nothing"


# ── rights ───────────────────────────────────────────────────────────────────────────────────


def test_the_setting_for_rights_is_kept(user: User) -> None:
    """Row "programs of the same user over TCP": probing.server.rights lowers what they may do."""
    target = user.probed_target()
    port = free_port()
    user("serve", "--listen", port, "--background").expect(0)
    body = json.dumps({"target": target.pid, "code": "6 * 7"})
    curl = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Content-Type: application/json"]
    evaluate = [*curl, "-d", body, f"http://127.0.0.1:{port}/api/v1/eval"]
    look = [*curl, f"http://127.0.0.1:{port}/api/v1/backtrace?target={target.pid}"]
    assert user.run(*evaluate).stdout == "200"
    for right, code in (("read", "403"), ("profile", "403"), ("eval", "200")):
        user("config", f"probing.server.rights={right}").expect(0)
        assert (user.run(*evaluate).stdout, user.run(*look).stdout) == (code, "200"), right


SECRET = """
import time
def hold(password):
    print('ready', flush=True)
    time.sleep(600)
hold('hunter' + '2')
"""


def test_local_variables_take_the_right_to_eval(user: User) -> None:
    """Row "a token for reading": by backtrace, SQL, the text protocol and MCP."""
    target = user.probed_target(SECRET)
    port = free_port()
    user("serve", "--listen", port, "--background").expect(0)
    tokens = user("token", "--json").expect(0).json
    url = f"http://127.0.0.1:{port}"
    curl = ["curl", "-sS", "-H", "Content-Type: application/json"]

    def ask(right: str, path: str, body: object = None) -> str:
        data = [] if body is None else ["-d", json.dumps(body)]
        return user.run(*curl, "-H", f"Authorization: Bearer {tokens[right]}", *data, url + path).stdout

    def text(right: str, line: str) -> str:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(f"token {tokens[right]}\nuse {target.pid}\n{line}\nquit\n".encode())
            return read_all(connection).decode()

    def every_way(right: str) -> dict[str, str]:
        locals_of = f"/api/v1/backtrace?target={target.pid}&locals=true"
        tool = {"name": "backtrace", "arguments": {"target": target.pid, "locals": True}}
        mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
        found = {
            "backtrace": ask(right, locals_of),
            "as text": ask(right, locals_of + "&format=text"),
            "mcp": ask(right, "/mcp", mcp),
        }
        for table in ("python.backtrace", "python.stacks", "global.python.stacks"):
            for sql in (f"SELECT locals FROM {table}", f"SELECT * FROM {table}"):
                found[sql] = ask(right, "/api/v1/query", {"sql": sql, "target": target.pid})
                found[sql + " as text"] = text(right, sql)
        return found

    for right in ("read", "profile"):
        shown = every_way(right)
        assert [way for way, answer in shown.items() if "hunter2" in answer] == [], right
        assert "take the right to eval" in shown["backtrace"]
        assert "hold" in ask(right, f"/api/v1/backtrace?target={target.pid}"), "all else is shown"
    assert [way for way, answer in every_way("eval").items() if "hunter2" not in answer] == []
    # One who may not see them gets no share of an answer for one who may.
    assert "hunter2" not in ask("read", f"/api/v1/backtrace?target={target.pid}&locals=true")


# ── text of a target ─────────────────────────────────────────────────────────────────────────

# Names that set a terminal's title, clear it, and pretend to be a line of ours.
RUDE = r"""
import threading
body = "def f():\n import time\n print('ready', flush=True)\n time.sleep(600)\n"
scope = {}
exec(compile(body, "a\x1b]0;file\x07\nb.py", "exec"), scope)
f = scope["f"]
names = {key: "func\x1b[2J\nforged" for key in ("co_name", "co_qualname") if hasattr(f.__code__, key)}
f.__code__ = f.__code__.replace(**names)
threading.current_thread().name = "thread\x1b[6n\nforged"
f()
"""


def shown_on_terminal(user: User, *arguments: object) -> str:
    """All that the command writes to a terminal, escape sequences included."""
    command = " ".join([str(user.bin / "probing"), *map(str, arguments)])
    done = user.run("script", "-qec", command, "/dev/null")
    return done.stdout


@pytest.mark.parametrize(
    "command",
    [
        "list",
        "backtrace",
        "backtrace --locals",
        "top --once --idle",
        "status",
        "query-stacks",
        "eval",
        "eval-err",
    ],
)
def test_names_of_a_target_give_no_orders_to_a_terminal(user: User, command: str) -> None:
    """Row "names and texts of a target"."""
    if shutil.which("script") is None:
        pytest.skip("util-linux's script is missing")
    target = user.target(RUDE, PROBING_RUDE="x")
    user("-t", target.pid, "inject").expect(0)
    words = {
        "query-stacks": ["query", '"SELECT func, file, thread_name FROM python.stacks"'],
        "eval": ["eval", "\"print(chr(27) + ']0;owned' + chr(7))\""],
        "eval-err": ["eval", "\"raise ValueError(chr(27) + ']0;owned' + chr(7))\""],
    }.get(command, command.split())
    shown = shown_on_terminal(user, "-t", target.pid, *words)
    assert "\x1b]" not in shown and "\x07" not in shown and "\x1b[2J" not in shown and "\x1b[6n" not in shown
    assert not [line for line in shown.splitlines() if line.startswith("forged")], shown
    assert "func" in shown or command in ("list", "status", "eval", "eval-err"), shown


def test_names_of_a_target_forge_no_line_of_the_log(user: User) -> None:
    """Row "names and texts of a target": the log has one line for each event."""
    process = subprocess.Popen(
        [*user.prefix, PYTHON, "-c", SLEEP, "x\n2026-01-01T00:00:00.000Z info  forged\x1b]0;owned\x07"],
        stdout=subprocess.PIPE,
    )
    user.targets.append(process)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    user("-t", process.pid, "inject").expect(0)
    wait_until(lambda: (user.listed(process.pid) or {}).get("state") == "live", 20, "it is met")
    log = (user.folder / "probingd.log").read_bytes()
    assert f"target {process.pid} is here".encode() in log
    assert b"\x1b" not in log and b"\x07" not in log
    assert not [line for line in log.splitlines() if b"forged" in line and b"is here" not in line]


# ── programs and libraries ───────────────────────────────────────────────────────────────────


def test_programs_and_libraries_come_from_beside_the_running_one(user: User, tmp_path: Path) -> None:
    """Row "the library that is injected, probingd, probing": not by PATH, a folder that one stands in, or the
    target's environment."""
    trap = Path(f"/tmp/trap-{user.uid}")
    trap.mkdir(mode=0o755)
    try:
        for name in ("probing", "probingd", "probe", "libprobing.so"):
            (trap / name).write_text(f"#!/bin/sh\ntouch {trap}/sprung\n")
            (trap / name).chmod(0o755)
        trap.chmod(0o777)
        process = user.target(PROBING_LIBRARY=str(trap / "libprobing.so"), PATH=f"{trap}:/usr/bin:/bin")
        command = f"cd {trap} && PATH={trap}:$PATH {user.bin}/probing -t {process.pid} inject"
        done = user.run("sh", "-c", command)
        assert done.returncode == 0, done.stderr
        assert user("-t", process.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
        [daemon] = user.daemons()
        assert os.readlink(f"/proc/{daemon}/exe") == str(user.bin / "probingd")
        assert not (trap / "sprung").exists()
    finally:
        shutil.rmtree(trap)


def test_many_targets_take_few_descriptors_each(user: User) -> None:
    """Row "how many targets there are": the files of /proc that stay open have a budget."""
    daemon = user.daemon()
    before = len(harness.open_files(daemon))
    for _ in range(16):
        user.probed_target()
    time.sleep(3)  # files are kept from the second look on, which comes every second
    assert len(harness.open_files(daemon)) - before < 16 * 13 + 96
