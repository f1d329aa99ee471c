"""PROBING=… : who is meant, decided at the start of every Python."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import _probing_start as hook
import harness
import install_hook
import pytest

TRAIN = ["python3", "train.py", "--lr", "0.1"]


def never() -> bool:
    raise AssertionError("inheritance must not be asked for")


# ── the decision ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", ["", "0", "off", "OFF", "false", "no", "  "])
def test_off_means_nobody(value: str) -> None:
    assert not hook.is_meant(value, TRAIN, never)


@pytest.mark.parametrize("value", ["1", "on", "ON", "true", "yes", " 1 "])
def test_on_means_this_process_but_not_its_children(value: str) -> None:
    assert hook.is_meant(value, TRAIN, lambda: False)
    assert not hook.is_meant(value, TRAIN, lambda: True)


def test_nested_means_children_too() -> None:
    assert hook.is_meant("nested", TRAIN, never)


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [("train", True), (r"train\.py --lr 0\.1$", True), ("^python3", True), ("eval", False), ("", True)],
)
def test_regex_is_searched_in_the_command_line(pattern: str, meant: bool) -> None:
    assert hook.is_meant("regex:" + pattern, TRAIN, never) is meant


@pytest.mark.parametrize(
    ("value", "arguments", "meant"),
    [
        ("train.py", ["python3", "train.py"], True),
        ("train.py", ["python3", "/work/jobs/train.py"], True),
        ("train.py", ["python3", "-u", "-X", "dev", "-W", "ignore", "train.py", "other.py"], True),
        ("train.py", ["python3", "other.py", "train.py"], False),
        ("train.py", ["python3", "-m", "train.py"], False),
        ("train.py", ["python3", "-c", "train.py"], False),
        ("train.py", ["python3"], False),
        ("train.py", ["python3", "mytrain.py"], False),
        ("/work/jobs/train.py", ["python3", "/work/jobs/train.py"], True),
        ("/work/jobs/train.py", ["python3", "/work/other/train.py"], False),
    ],
)
def test_a_script_name_means_processes_that_run_it(value: str, arguments: list[str], meant: bool) -> None:
    assert hook.is_meant(value, arguments, never) is meant


def test_probing_comes_before_probe() -> None:
    assert hook.wanted({"PROBING": "a", "PROBE": "b"}) == ("PROBING", "a")
    assert hook.wanted({"PROBE": "b"}) == ("PROBE", "b")
    assert hook.wanted({"PROBING": "", "PROBE": "b"}) == ("PROBE", "b")
    assert hook.wanted({}) is None


def test_a_broken_regex_harms_nobody(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROBING", "regex:(")
    assert hook.start("/nowhere/libprobing.so") is False
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def own_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Looks as if this very process had a probe."""
    folder = tmp_path / f"probing-{os.getuid()}"
    folder.mkdir()
    monkeypatch.setattr(hook, "RUNTIME_PARENTS", (str(tmp_path),))
    path = folder / f"{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        yield path


def ask_in_child(own_socket: Path, **environment: str) -> str:
    """Whether a child of this process believes that the variable was meant for us."""
    code = (
        "import _probing_start as hook\n"
        f"hook.RUNTIME_PARENTS = ({str(own_socket.parent.parent)!r},)\n"
        "hook.has_variable = lambda pid, name, value: (name, value) == ('PROBING', '1')\n"
        "print(hook.is_child_of_a_probed_process('PROBING', '1'),"
        " hook.is_child_of_a_probed_process('PROBING', 'on'))"
    )
    shell = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", code]  # a grandchild, as it happens
    environment = harness.clean_environment(PYTHONPATH=str(harness.ROOT / "python"), **environment)
    return subprocess.run(shell, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_child_of_a_probed_process_knows_that_it_only_inherited_the_variable(own_socket: Path) -> None:
    assert ask_in_child(own_socket) == "True False\n"
    own_socket.unlink()
    assert ask_in_child(own_socket) == "False False\n", "an ancestor without a probe does not count"


# ── the .pth file ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hooked(tmp_path: Path, python: str) -> Iterator[Path]:
    """An interpreter of its own (a virtual environment), with the hook installed."""
    if harness.is_unpacked(python):
        pytest.skip("a virtual environment knows only the loader")
    venv = tmp_path / "venv"
    original = harness.pythons()[python]
    subprocess.run([str(original), "-m", "venv", "--without-pip", str(venv)], check=True)
    interpreter = venv / "bin/python"
    tool = [sys.executable, str(harness.ROOT / "tools/install_hook.py"), "--python", str(interpreter)]
    subprocess.run([*tool, "--library", str(harness.BIN / "libprobing.so")], check=True, capture_output=True)
    assert list(venv.rglob("probing.pth")), "it went into this interpreter, not into the one behind it"
    yield interpreter
    subprocess.run([*tool, "--uninstall"], check=True, capture_output=True)
    assert not list(venv.rglob("probing.pth"))


def run_python(interpreter: Path, code: str, **environment: str) -> str:
    command = [str(interpreter), "-c", code]
    result = subprocess.run(
        command, env=harness.clean_environment(**environment), capture_output=True, text=True
    )
    assert result.returncode == 0 and result.stderr == "", result
    return result.stdout


LOADED = "print('libprobing' in open('/proc/self/maps').read())"


def test_without_the_variable_nothing_of_ours_is_imported(hooked: Path) -> None:
    code = "import sys; print(sorted(name for name in sys.modules if 'probing' in name))"
    assert run_python(hooked, code) == "[]\n"
    assert run_python(hooked, code, PROBING="") == "[]\n"


def test_probing_1_loads_the_probe_and_0_does_not(hooked: Path) -> None:
    assert run_python(hooked, LOADED, PROBING="1") == "True\n"
    assert run_python(hooked, LOADED, PROBE="1") == "True\n"
    assert run_python(hooked, LOADED, PROBING="0") == "False\n"
    assert run_python(hooked, LOADED, PROBING="other.py") == "False\n"
    assert run_python(hooked, LOADED, PROBING="1", PROBING_DISABLE="1") == "False\n"


def test_the_children_of_a_probed_process_are_probed_only_when_nested(hooked: Path) -> None:
    code = (
        "import os, subprocess, sys, time, probing\n"
        "deadline = time.time() + 10\n"
        "name = '/probing-%d/%d.sock' % (os.getuid(), os.getpid())\n"
        "while not any(os.path.exists(p + name) for p in ('/tmp', '/dev/shm', '/var/tmp')):\n"
        "    assert time.time() < deadline\n"
        "    time.sleep(0.01)\n"
        f"print(subprocess.check_output([sys.executable, '-c', {LOADED!r}]).decode().strip())"
    )
    assert run_python(hooked, code, PROBING="1") == "False\n"
    assert run_python(hooked, code, PROBING="nested") == "True\n"


def test_import_probing_loads_the_probe(hooked: Path) -> None:
    code = "import probing; print(probing.is_active(), probing.__version__); " + LOADED
    assert run_python(hooked, code) == "True 0.1.0\nTrue\n"
    assert run_python(hooked, code, PROBING_DISABLE="1") == "False 0.1.0\nFalse\n"


def test_a_missing_library_is_no_reason_to_fail(hooked: Path) -> None:
    code = "import probing; print(probing.is_active())"
    assert run_python(hooked, code, PROBING="1", PROBING_LIBRARY="/nowhere.so") == "False\n"


def test_the_pth_file_is_one_path_and_one_guarded_import() -> None:
    lines = install_hook.pth_content(Path("/p/python"), Path("/p/libprobing.so")).splitlines()
    assert lines[0] == "/p/python"
    assert lines[1].startswith("import os; (os.environ.get(")
    assert len(lines) == 2


# ── launchers ────────────────────────────────────────────────────────────────────────────────

# A program under a launcher: is the probe in itself, in a program that it starts, in a worker that
# multiprocessing starts? A rank that changes its environment (Lightning does) still has helpers only.
RANK = f"""
import multiprocessing, os, subprocess, sys, time
LOADED = {LOADED!r}
def loaded():
    return 'libprobing' in open('/proc/self/maps').read()
def worker(pipe):
    pipe.send(loaded())
if __name__ == '__main__':
    name = '/probing-%d/%d.sock' % (os.getuid(), os.getpid())
    deadline = time.time() + 30
    while loaded() and not any(os.path.exists(p + name) for p in ('/tmp', '/dev/shm', '/var/tmp')):
        assert time.time() < deadline
        time.sleep(0.01)
    child = subprocess.check_output([sys.executable, '-c', LOADED]).decode().strip()
    os.environ['LOCAL_RANK'] = '77'
    context = multiprocessing.get_context('spawn')
    ours, theirs = context.Pipe()
    process = context.Process(target=worker, args=(theirs,))
    process.start()
    names = ('RANK', 'OMPI_COMM_WORLD_RANK', 'SLURM_PROCID')
    rank = next(os.environ[name] for name in names if name in os.environ)
    line = 'rank %s: %s, child %s, worker %s' % (rank, loaded(), child, ours.recv())
    process.join()
    os.write(1, (line + chr(10)).encode())
"""

# What launchers have in common: a Python program that starts one process for each rank.
LAUNCHER = """
import os, subprocess, sys, time
name = '/probing-%d/%d.sock' % (os.getuid(), os.getpid())
deadline = time.time() + 30
while not any(os.path.exists(p + name) for p in ('/tmp', '/dev/shm', '/var/tmp')):
    assert time.time() < deadline
    time.sleep(0.01)
ranks = [subprocess.Popen(sys.argv[2:], env=dict(os.environ, **{sys.argv[1]: str(rank)})) for rank in (0, 1)]
sys.exit(max(rank.wait() for rank in ranks))
"""


def launch(command: list[str], **environment: str) -> list[str]:
    result = subprocess.run(
        command, env=harness.clean_environment(**environment), capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result
    return sorted(result.stdout.splitlines())


EACH_RANK = [f"rank {rank}: True, child False, worker False" for rank in (0, 1)]


@pytest.mark.parametrize("variable", ["RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"])
def test_the_ranks_of_a_probed_launcher_are_probed_and_their_helpers_are_not(
    hooked: Path, tmp_path: Path, variable: str
) -> None:
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    command = [str(hooked), str(tmp_path / "launcher.py"), variable, str(hooked), str(tmp_path / "rank.py")]
    assert launch(command, PROBING="1") == EACH_RANK
    off = [line.replace("True", "False") for line in EACH_RANK]
    assert launch(command, PROBING="launcher.py") == off, "a name means the programs of this name"


def test_a_shell_between_the_launcher_and_the_rank_changes_nothing(hooked: Path, tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "launcher.py").write_text(LAUNCHER)
    shell = ["sh", "-c", '"$@"; true', "sh", str(hooked), str(tmp_path / "rank.py")]
    command = [str(hooked), str(tmp_path / "launcher.py"), "RANK", *shell]
    assert launch(command, PROBING="1") == EACH_RANK


# What torch.multiprocessing.spawn does, as Python sees it: a process begins with `_wrap` of that module.
SPAWN = """
import multiprocessing
def _wrap(function, rank):
    function(rank)
def spawn(function, nprocs):
    context = multiprocessing.get_context('spawn')
    ranks = [context.Process(target=_wrap, args=(function, rank)) for rank in range(nprocs)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
"""

SPAWNING = """
import multiprocessing, os, time
def loaded():
    return 'libprobing' in open('/proc/self/maps').read()
def say(text):
    os.write(1, (text + chr(10)).encode())
def helper(name):
    say('%s: %s' % (name, loaded()))
def rank(number):
    say('rank %d: %s' % (number, loaded()))
    worker = multiprocessing.get_context('spawn').Process(target=helper, args=('worker of %d' % number,))
    worker.start()
    worker.join()
if __name__ == '__main__':
    name = '/probing-%d/%d.sock' % (os.getuid(), os.getpid())
    deadline = time.time() + 30
    while loaded() and not any(os.path.exists(p + name) for p in ('/tmp', '/dev/shm', '/var/tmp')):
        assert time.time() < deadline
        time.sleep(0.01)
    from torch.multiprocessing.spawn import spawn
    spawn(rank, 2)
    other = multiprocessing.get_context('spawn').Process(target=helper, args=('another child',))
    other.start()
    other.join()
"""


def fake_torch(folder: Path) -> None:
    package = folder / "torch/multiprocessing"
    package.mkdir(parents=True)
    (folder / "torch/__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "spawn.py").write_text(SPAWN)


def test_ranks_of_torch_multiprocessing_spawn_are_probed_and_other_children_are_not(
    hooked: Path, tmp_path: Path
) -> None:
    fake_torch(tmp_path)
    script = tmp_path / "spawning.py"
    script.write_text(SPAWNING)
    expected = ["another child: False", "rank 0: True", "rank 1: True"]
    expected += ["worker of 0: False", "worker of 1: False"]
    assert launch([str(hooked), str(script)], PROBING="1") == expected
    assert launch([str(hooked), str(script)], PROBING="0") == [
        line.replace("True", "False") for line in expected
    ]


# As torch's: what makes the process group is looked up when it is called.
C10D = """
def _new_process_group_helper(name):
    return name
def init_process_group(name):
    return _new_process_group_helper(name)
"""

# Ranks that a program starts itself, and other children of it.
OWN_RANKS = """
import multiprocessing, os, sys, time
def loaded():
    name = '/probing-%d/%d.sock' % (os.getuid(), os.getpid())
    deadline = time.time() + (30 if os.environ['SAYS'] == 'rank' else 0.3)
    while time.time() < deadline:
        if any(os.path.exists(p + name) for p in ('/tmp', '/dev/shm', '/var/tmp')):
            return True
        time.sleep(0.01)
    return False
def say(name):
    os.write(1, ('%s: %s' % (name, loaded()) + chr(10)).encode())
def rank(name):
    forked = name == 'own rank' or name.startswith('fork ')
    os.environ['SAYS'] = 'rank' if PROBED and (hasattr(os, 'register_at_fork') or not forked) else ''
    from torch.distributed.distributed_c10d import init_process_group
    assert init_process_group('gloo') == 'gloo'
    say(name)
    assert init_process_group('again') == 'again'
    context = multiprocessing.get_context('fork')
    worker = context.Process(target=helper, args=('worker of ' + name,))
    worker.start()
    worker.join()
def helper(name):
    os.environ['SAYS'] = ''
    say(name)
PROBED = os.environ['PROBING'] == '1'
if __name__ == '__main__':
    os.environ['SAYS'] = 'rank' if PROBED else ''
    say('program')
    if sys.argv[1] == 'imported':
        from torch.distributed.distributed_c10d import init_process_group
    for method in sys.argv[2:]:
        context = multiprocessing.get_context(method)
        for function, name in ((rank, 'rank'), (helper, 'helper')):
            process = context.Process(target=function, args=(method + ' ' + name,))
            process.start()
            process.join()
            assert process.exitcode == 0
    if os.fork() == 0:
        rank('own rank')
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize("torch_is", ["imported", "not imported"])
@pytest.mark.slow(120)
def test_ranks_that_a_program_starts_itself_are_probed_once_they_make_a_process_group(
    hooked: Path, tmp_path: Path, python: str, torch_is: str
) -> None:
    """Python 3.6 says nothing of a fork."""
    fake_torch(tmp_path)
    (tmp_path / "torch/distributed").mkdir()
    (tmp_path / "torch/distributed/__init__.py").write_text("")
    (tmp_path / "torch/distributed/distributed_c10d.py").write_text(C10D)
    script = tmp_path / "own_ranks.py"
    script.write_text(OWN_RANKS)
    methods = ["fork", "spawn", "forkserver"]
    after_fork = harness.version_of(python) >= (3, 7)
    expected = sorted(
        ["program: True", f"own rank: {after_fork}", "worker of own rank: False"]
        + [f"fork rank: {after_fork}", "spawn rank: True", "forkserver rank: True"]
        + [f"{method} helper: False" for method in methods]
        + [f"worker of {method} rank: False" for method in methods]
    )
    command = [str(hooked), str(script), torch_is, *methods]
    assert launch(command, PROBING="1") == expected
    assert launch(command, PROBING="0") == [line.replace("True", "False") for line in expected]


# A worker of Ray learns what to do when it runs already: it is probed when that begins with torch.
RAY_WORKER = """
import os, sys
def loaded():
    return 'libprobing' in open('/proc/self/maps').read()
before, finders = loaded(), len(sys.meta_path)
import torch
words = ('before', before, 'after', loaded(), 'finders', finders - len(sys.meta_path), torch.__name__)
os.write(1, (' '.join(map(str, words)) + chr(10)).encode())
"""


def test_a_worker_of_ray_is_probed_when_it_imports_torch_and_ray_itself_is_not(
    hooked: Path, tmp_path: Path
) -> None:
    fake_torch(tmp_path)
    folder = tmp_path / "ray/_private/workers"
    folder.mkdir(parents=True)
    for name in ("default_worker.py", "setup_worker.py"):
        (folder / name).write_text(f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n" + RAY_WORKER)
    # An agent of Ray's beside it: nothing that people run.
    for name, line in (
        ("default_worker.py", "before False after True finders 1 torch"),
        ("setup_worker.py", "before False after False finders 0 torch"),
    ):
        assert launch([str(hooked), str(folder / name)], PROBING="1") == [line]


TORCH = harness.ROOT / "build/torch-venv/bin/python"


@pytest.fixture
def torch_hooked(tmp_path: Path) -> Path:
    """An interpreter with torch and the start hook; build/torch-venv stays as it is."""
    if not TORCH.exists():
        pytest.skip("needs torch in build/torch-venv (tools/install_deps.sh torch)")
    venv = tmp_path / "venv"
    subprocess.run([str(TORCH), "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python3*/site-packages")
    (packages,) = TORCH.parent.parent.glob("lib/python3*/site-packages")
    (site / "torch.pth").write_text(f"{packages}\n")
    content = install_hook.pth_content(harness.ROOT / "python", harness.BIN / "libprobing.so")
    (site / "probing.pth").write_text(content)
    return venv / "bin/python"


def first_line(launcher: str, interpreter: Path, script: Path) -> list[str]:
    """What docs/guides/launchers.md says to type, with this interpreter and script."""
    page = (harness.ROOT / "docs/guides/launchers.md").read_text()
    (line,) = re.findall(rf"`PROBING=1 ({re.escape(launcher)} .*?)`", page)
    python = [str(interpreter)]
    words = {"python": python, "train.py": [str(script)]}
    words["torchrun"] = [*python, "-m", "torch.distributed.run"]
    return [each for word in shlex.split(line) for each in words.get(word, [word])]


def test_probing_1_torchrun_probes_the_launcher_and_its_ranks(torch_hooked: Path, tmp_path: Path) -> None:
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    command = first_line("torchrun", torch_hooked, script)
    environment = {"PROBING": "1", "OMP_NUM_THREADS": "1", "PET_MASTER_PORT": "29711"}
    assert launch(command, **environment) == EACH_RANK


def test_probing_1_mpirun_probes_its_ranks(hooked: Path, tmp_path: Path) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("needs mpirun (Debian's openmpi-bin)")
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = first_line("mpirun", hooked, script)
    assert launch(command, PROBING="1", OMPI_MCA_rmaps_base_oversubscribe="1", **allowed) == EACH_RANK
