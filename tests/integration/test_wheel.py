"""What is shipped: the wheel, `make install`, the tarball. Each is installed and used."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import make_wheel
import pytest
import stage
from harness import Cli, Target, wait_until
from packages import Venv, usable_pythons
from users import BUSY, User, uids

StartTarget = Callable[..., Target]
LOADED = "print('libprobing' in open('/proc/self/maps').read())"
pytestmark = pytest.mark.slow(300)


def stop_all_daemons(*bin_dirs: Path) -> None:
    for pid in harness.daemons([harness.BIN, *bin_dirs]):
        harness.stop_process(pid)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    tool = [sys.executable, str(harness.ROOT / "tools/make_wheel.py"), str(folder)]
    done = subprocess.run(tool, capture_output=True, text=True)
    assert done.returncode == 0, done
    assert re.search(r"whl: \d+\.\d MB, \d+ files", done.stdout), "the size is printed"
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module", params=usable_pythons())
def venv(
    request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Venv]:
    environment = Venv(request.param, tmp_path_factory.mktemp("venv") / "venv")
    environment.install(wheel)
    stop_all_daemons()  # the one that answers is to be the installed one
    yield environment
    stop_all_daemons(environment.folder / "bin")
    shutil.rmtree(environment.folder)


# ── the file ─────────────────────────────────────────────────────────────────────────────────


def test_the_wheel_fits_every_python_and_an_old_glibc(wheel: Path) -> None:
    glibc = re.search(r"-py3-none-manylinux_2_(\d+)_x86_64", wheel.name)
    assert glibc, wheel.name
    assert int(glibc[1]) <= 26  # DuckDB's own build needs 2.25, all of ours 2.17 (check_symbols.py)


def test_the_wheel_lists_what_it_has_and_depends_on_nothing(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(name.split("/")[0] for name in names if ".dist-info/" in name)
        record = csv.reader(io.StringIO(archive.read(f"{info}/RECORD").decode()))
        sums = {path: (digest, size) for path, digest, size in record}
        assert sorted(sums) == sorted(names)
        for name in names:
            if not name.endswith("/RECORD"):
                data = archive.read(name)
                assert sums[name] == (make_wheel.digest(data), str(len(data))), name
        assert "Requires-Dist" not in archive.read(f"{info}/METADATA").decode().split("\n\n")[0]
    wanted = {"probing", "probe", "probingd", "libprobing.so", "libprobe.so", "libduckdb.so", "probing.pth"}
    wanted |= {"libprobing-nccl.so"}
    wanted |= {"_probing_start.py", "probing.1", "probing-inject.1", "probing.fish", "LICENSE", "duckdb.txt"}
    assert wanted <= {name.rpartition("/")[2] for name in names}


def test_the_same_sources_give_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    files = make_wheel.entries(stage.version())
    tag = wheel.stem.split("-none-")[1]
    make_wheel.write(tmp_path / "again.whl", files, stage.version(), tag, zipfile.ZIP_DEFLATED)
    assert (tmp_path / "again.whl").read_bytes() == wheel.read_bytes()


# ── installed ────────────────────────────────────────────────────────────────────────────────


def test_an_installed_wheel_looks_into_another_python(venv: Venv, target: StartTarget) -> None:
    """The environment of the command line and the target's Python have nothing to do with each other."""
    other = next(
        v for v in reversed(harness.python_ids()) if v != venv.version or len(harness.python_ids()) == 1
    )
    busy = target("busy", python=other)
    probing = venv.probing
    probing("-t", busy.pid, "inject").expect(0)
    assert probing("-t", busy.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    rows = harness.rows(probing, "SELECT count(*) AS n FROM python.stacks", busy.pid)
    assert rows[0]["n"] > 0, "DuckDB came with it"
    daemon = int(probing("status", "--json").expect(0).json["pid"])
    assert Path(os.readlink(f"/proc/{daemon}/exe")).is_relative_to(venv.folder.resolve())
    probing("-t", busy.pid, "eject").expect(0)
    busy.expect_progress()


def test_an_installed_wheel_enters_every_python(venv: Venv, target: StartTarget) -> None:
    for python in harness.python_ids():
        busy = target("busy", python=python)
        venv.probing("-t", busy.pid, "inject").expect(0)
        assert venv.probing("-t", busy.pid, "eval", "6 * 7").expect(0).stdout == "42\n", python
        busy.expect_progress()
        busy.kill()


def test_an_installed_wheel_enters_another_mount_and_pid_namespace(venv: Venv, target: StartTarget) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can make namespaces here")
    outer = target("busy", prefix=["unshare", "--mount", "--pid", "--fork", "--mount-proc"])
    pid = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0])
    assert os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    venv.probing("-t", pid, "inject").expect(0)
    assert venv.probing("-t", pid, "eval", "import os; os.getpid()").expect(0).stdout == "1\n"
    venv.probing("-t", pid, "eject").expect(0)
    outer.expect_progress()
    outer.will_end(-9, 137)  # as unshare tells of its child
    os.kill(pid, 9)
    outer.kill()


@pytest.fixture
def somebody(wheel: Path) -> Iterator[User]:
    """A user without rights, and the wheel where they can read it."""
    if os.getuid() != 0:
        pytest.skip("only root can be somebody else")
    folder = Path(tempfile.mkdtemp(prefix="probing-wheel-"))
    folder.chmod(0o755)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--prefix"]
    subprocess.run([*command, str(folder), str(wheel)], check=True)
    user = User(Cli(folder / "bin"), next(uids))
    yield user
    user.leave()
    shutil.rmtree(folder)


def test_an_owner_without_rights_uses_the_wheel(somebody: User) -> None:
    job = somebody.target(BUSY)
    somebody("-t", job.pid, "inject").expect(0)
    assert somebody("-t", job.pid, "eval", "6 * 7").expect(0).stdout == "42\n"
    rows = somebody("-t", job.pid, "query", "-f", "json", "SELECT count(*) AS n FROM python.stacks")
    assert rows.expect(0).json[0]["n"] > 0
    assert harness.proc_status(somebody.daemon(), "Uid").split()[0] == str(somebody.uid)
    somebody("-t", job.pid, "eject").expect(0)
    assert job.poll() is None


def test_the_older_name_is_there(venv: Venv, target: StartTarget) -> None:
    busy = target("busy")
    venv.probing(busy.pid, program="probe").expect(0)
    wait_until(lambda: harness.is_probed(busy.pid), 10, "probe PID injects")
    assert venv.probing("--version", program="probe").expect(0).stdout == f"probing {stage.version()}\n"


def test_the_package_finds_its_library(venv: Venv) -> None:
    code = f"import probing; print(probing.is_active(), probing.__version__); {LOADED}"
    assert venv.run(code) == f"True {stage.version()}\nTrue\n"


def test_the_start_hook_of_the_wheel(venv: Venv) -> None:
    names = "import sys; print(sorted(name for name in sys.modules if 'probing' in name))"
    assert venv.run(names) == "[]\n"
    assert venv.run(LOADED, PROBING="1") == "True\n"
    assert venv.run(LOADED, PROBE="nested") == "True\n"
    assert venv.run(LOADED, PROBING="regex:no such command") == "False\n"
    assert venv.run(LOADED, PROBING="1", PROBING_DISABLE="1") == "False\n"


@pytest.mark.parametrize("gone", ["_probing_start.py", "probing"])
def test_a_half_removed_installation_breaks_no_interpreter(venv: Venv, tmp_path: Path, gone: str) -> None:
    site = next(venv.folder.rglob("probing.pth")).parent
    (site / gone).rename(tmp_path / "away")
    try:
        assert venv.run("print('fine')", PROBING="1") == "fine\n"  # and nothing on stderr
    finally:
        (tmp_path / "away").rename(site / gone)


def test_uninstalling_leaves_nothing(wheel: Path, tmp_path: Path) -> None:
    version = next(v for v in usable_pythons() if not harness.is_unpacked(v))
    environment = Venv(version, tmp_path / "venv")
    before = environment.files()
    environment.install(wheel)
    assert "bin/probing" in environment.files()
    environment.run("import probing")
    environment.uninstall()
    assert environment.files() - before == set(), "neither files nor folders"


# ── the other ways to install ────────────────────────────────────────────────────────────────


def expect_works(prefix: Path, target: StartTarget) -> None:
    probing = Cli(prefix / "bin")
    busy = target("busy")
    stop_all_daemons()
    probing(busy.pid, program="probe").expect(0)
    assert harness.rows(probing, "SELECT 6 * 7 AS n", busy.pid) == [{"n": 42}]
    environment = harness.clean_environment(PYTHONPATH=str(prefix / "lib/probing/python"))
    code = "import probing; print(probing.is_active())"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "True\n", done
    stop_all_daemons(prefix / "bin")


def test_make_install_puts_a_working_tree_below_the_prefix(tmp_path: Path, target: StartTarget) -> None:
    tool = [sys.executable, str(harness.ROOT / "tools/stage.py"), "install", "/opt/probing"]
    environment = harness.clean_environment(DESTDIR=str(tmp_path / "image"))
    for _ in range(2):  # over an older one, too
        subprocess.run(tool, env=environment, check=True, capture_output=True)
    assert [path.name for path in tmp_path.iterdir()] == ["image"]
    expect_works(tmp_path / "image/opt/probing", target)


def test_the_tarball_works_where_it_is_unpacked(
    tmp_path: Path, target: StartTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "DIST", tmp_path / "dist")
    with tarfile.open(stage.tarball()) as archive:
        archive.extractall(tmp_path)
    expect_works(next(tmp_path.glob("probing-*")), target)


# ── manual pages ─────────────────────────────────────────────────────────────────────────────


def test_every_command_has_a_manual_page(probing: Cli) -> None:
    pages = stage.man_pages.all_pages(harness.BIN, stage.version())
    commands = re.findall(r"^  (\w+)(?:, \w+)?  ", probing("--help").stdout.split("Subcommands:")[1], re.M)
    assert len(commands) > 20
    for command in commands:
        page = pages[f"probing-{command}.1"]
        summary = probing(command, "--help").stdout.splitlines()[0]
        assert f"\\- {stage.man_pages.escape(summary)}" in page
    assert "inject" in pages["probing.1"] and "EXIT STATUS" in pages["probing.1"]
