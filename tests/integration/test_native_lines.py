"""Names, files and lines of native frames: as gdb has them, and from where gdb has them."""

from __future__ import annotations

import lzma
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import pytest
from terminal import Terminal

StartTarget = Callable[..., harness.Target]
Compile = Callable[..., Path]
KERNEL = (
    "shop::(anonymous namespace)::VectorizedKernelOfTheInnermostLoop<double, 16>"
    "::run_the_innermost_kernel(std::vector<double, std::allocator<double>> const&)"
)


def run(*command: object) -> str:
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def library(tmp_path: Path) -> Compile:
    """Compiles tests/targets/library_kernels.cc: library("-g")."""

    def compile_library(*flags: str) -> Path:
        output = tmp_path / "libkernels.so"
        source = harness.TARGETS / "library_kernels.cc"
        build_id = "-Wl,--build-id=sha1"
        run("g++", "-O2", "-shared", "-fPIC", "-std=c++17", build_id, *flags, "-o", output, source)
        return output

    return compile_library


def start(target: StartTarget, library: Path, **options: Any) -> int:
    """Its pid, once it waits in the innermost function."""
    pid = target("kernels", library, **options).pid
    harness.wait_until(
        lambda: (
            harness.thread_states(pid)[pid] == "S" and str(library) in Path(f"/proc/{pid}/maps").read_text()
        )
    )
    return pid


def names(probing: harness.Cli, pid: int, **environment: str) -> list[str | None]:
    answer = probing("backtrace", "-t", pid, "--native", "--json", **environment).expect(0).json
    return [frame["func"] and one_spelling(frame["func"]) for frame in answer["threads"][0]["frames"]]


def one_spelling(name: str) -> str:
    """The two C++ libraries that we are built with write "> >" and ">>"."""
    return name.replace("> >", ">>")


def test_names_of_cxx_functions_are_whole_in_pipes_and_in_json(
    probing: harness.Cli, target: StartTarget, library: Compile
) -> None:
    pid = start(target, library())
    assert KERNEL in names(probing, pid)
    assert f" {KERNEL}+0x" in one_spelling(probing("backtrace", "-t", pid, "--native").expect(0).stdout)


def test_on_a_terminal_the_end_of_a_name_is_kept(
    probing: harness.Cli, target: StartTarget, library: Compile
) -> None:
    pid = start(target, library())
    narrow = Terminal("backtrace", "-t", pid, "--native", columns=80)
    line = narrow.expect(r"[^\n]*run_the_innermost_kernel[^\n]*\n").group().rstrip()
    assert len(line) <= 80
    assert "...::run_the_innermost_kernel+0x" in line
    assert narrow.wait() == 0
    wide = Terminal("backtrace", "-t", pid, "--native", columns=130)
    line = wide.expect(r"[^\n]*run_the_innermost_kernel[^\n]*\n").group()
    assert " shop::VectorizedKernelOfTheInnermostLoop<...>::run_the_innermost_kernel+0x" in line
    assert wide.wait() == 0


def split_debug_file(library: Path) -> Path:
    """What dh_strip does: the library without symbols, and all of them in a file of their own."""
    debug_file = library.with_suffix(".debug")
    run("objcopy", "--only-keep-debug", "--compress-debug-sections", library, debug_file)
    run("strip", "--strip-unneeded", library)
    return debug_file


def build_id(library: Path) -> str:
    match = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", library))
    assert match
    return match.group(1)


def test_a_stripped_library_has_its_names_from_the_cache_of_debuginfod(
    probing: harness.Cli, target: StartTarget, library: Compile, tmp_path: Path
) -> None:
    stripped = library("-g")
    debug_file = split_debug_file(stripped)
    pid = start(target, stripped)
    assert KERNEL not in names(probing, pid)
    cached = tmp_path / "cache" / build_id(stripped) / "debuginfo"
    cached.parent.mkdir(parents=True)
    debug_file.rename(cached)
    assert KERNEL in names(probing, pid, DEBUGINFOD_CACHE_PATH=str(tmp_path / "cache"))
    # The debug file of another build says nothing about this one.
    run("objcopy", "--remove-section", ".note.gnu.build-id", cached)
    assert KERNEL not in names(probing, pid, DEBUGINFOD_CACHE_PATH=str(tmp_path / "cache"))


@pytest.mark.parametrize("identified_by", ["--build-id=sha1", "--build-id=none"])
def test_a_stripped_library_has_its_names_from_the_file_its_debuglink_names(
    probing: harness.Cli, target: StartTarget, library: Compile, identified_by: str
) -> None:
    stripped = library("-g", f"-Wl,{identified_by}")
    debug_file = split_debug_file(stripped)
    run("objcopy", f"--add-gnu-debuglink={debug_file}", stripped)
    folder = stripped.parent / ".debug"
    folder.mkdir()
    debug_file.rename(folder / debug_file.name)
    pid = start(target, stripped)
    assert KERNEL in names(probing, pid)
    with open(folder / debug_file.name, "ab") as file:
        file.write(b"changed")
    assert (KERNEL in names(probing, pid)) == (identified_by != "--build-id=none")


def test_a_stripped_library_has_its_names_from_its_gnu_debugdata(
    probing: harness.Cli, target: StartTarget, library: Compile, tmp_path: Path
) -> None:
    stripped = library("-g")
    debug_file = split_debug_file(stripped)
    run("strip", "--strip-debug", debug_file)
    small = tmp_path / "small.xz"
    small.write_bytes(lzma.compress(debug_file.read_bytes()))
    run("objcopy", "--add-section", f".gnu_debugdata={small}", stripped)
    debug_file.unlink()
    found = names(probing, start(target, stripped))
    assert KERNEL in found
    assert "enter_kernels" in found


def own_name(name: str) -> str:
    """Without namespaces and parameters, which gdb writes in a way of its own."""
    if name.endswith("operator()"):
        return "operator()"
    return name.replace("(anonymous namespace)::", "").split("(")[0].split("::")[-1]


def frames_of_gdb(pid: int, *options: str) -> list[tuple[str, str, int]]:
    """(function, file, line) of the frames in the library, innermost first."""
    text = run("gdb", "-nx", "-batch", *options, "-p", pid, "-ex", "bt")
    frames = re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?(.*?) \(.*\) at (\S+):(\d+)$", text, re.M)
    in_library = [frame for frame in frames if frame[1].endswith("library_kernels.cc")]
    return [(own_name(name), Path(file).name, int(line)) for name, file, line in in_library]


def frames_of_probing(probing: harness.Cli, pid: int, **environment: str) -> list[tuple[str, str, int]]:
    answer = probing("backtrace", "-t", pid, "--lines", "--json", **environment).expect(0).json
    frames = [frame for frame in answer["threads"][0]["frames"] if frame.get("module") == "libkernels.so"]
    return [(own_name(frame["func"]), Path(frame["file"]).name, frame["lineno"]) for frame in frames]


@pytest.mark.parametrize(
    "flags", [["-gdwarf-5"], ["-gdwarf-4"], ["-gdwarf-5", "-gz"], ["-gdwarf-5", "-flto"]]
)
def test_lines_and_inlined_functions_are_those_of_gdb(
    probing: harness.Cli, target: StartTarget, library: Compile, flags: list[str]
) -> None:
    pid = start(target, library(*flags))
    wanted = frames_of_gdb(pid)
    assert [name for name, _, _ in wanted] == [
        "wait_inlined",
        "middle_inlined",
        "run_the_innermost_kernel",
        "static_caller",
        "call_unboxed",
        "operator()",
        "dispatch",
        "enter_kernels",
    ]
    assert frames_of_probing(probing, pid) == wanted


def test_lines_of_a_stripped_library_come_from_its_debug_file(
    probing: harness.Cli, target: StartTarget, library: Compile, tmp_path: Path
) -> None:
    stripped = library("-g")
    cached = tmp_path / "cache" / build_id(stripped) / "debuginfo"
    cached.parent.mkdir(parents=True)
    split_debug_file(stripped).rename(cached)
    pid = start(target, stripped)
    found = frames_of_probing(probing, pid, DEBUGINFOD_CACHE_PATH=str(tmp_path / "cache"))
    assert len(found) == 8
    assert found[1] == ("middle_inlined", "library_kernels.cc", 21)
    assert found[-1][0] == "enter_kernels"


def test_lines_are_shown_below_their_frames_and_only_when_asked_for(
    probing: harness.Cli, target: StartTarget, library: Compile
) -> None:
    pid = start(target, library("-g"))
    text = probing("backtrace", "-t", pid, "--lines").expect(0).stdout
    assert re.search(r"\n    inlined \S*middle_inlined\S*\n        at /\S+/library_kernels\.cc:21\n", text), (
        text
    )
    assert re.search(
        r"enter_kernels\+0x\S+ \(libkernels\.so\)\n        at /\S+library_kernels\.cc:\d+\n", text
    )
    text = probing("backtrace", "-t", pid, "--native").expect(0).stdout
    assert "inlined" not in text.replace("_inlined", "")
    assert "library_kernels.cc" not in text


PERF_JOB = """
import time
def inner():
    print("ready", flush=True)
    time.sleep(1000)
def outer():
    sorted([1], key=lambda value: inner())
outer()
"""


def test_trampolines_of_x_perf_do_not_end_the_stack(
    probing: harness.Cli, python: str, tmp_path: Path
) -> None:
    if harness.version_of(python) < (3, 12):
        pytest.skip("-X perf is of 3.12")
    command = [str(harness.pythons()[python]), "-X", "perf", "-c", PERF_JOB]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as job:
        try:
            assert job.stdout and job.stdout.readline() == "ready\n"
            harness.wait_until(lambda: harness.thread_states(job.pid)[job.pid] == "S")
            answer = probing("backtrace", "-t", job.pid, "--native", "--json").expect(0).json
        finally:
            job.kill()
    [main] = answer["threads"]
    assert main["merged"]
    python_frames = [frame["func"] for frame in main["frames"] if frame["frame_type"] == "Python"]
    assert python_frames == ["inner", "outer.<locals>.<lambda>", "outer", "<module>"] or python_frames == [
        "inner",
        "<lambda>",
        "outer",
        "<module>",
    ]
    assert not [frame for frame in main["frames"] if "trampoline" in (frame["func"] or "")]
    assert not [frame for frame in main["frames"] if (frame["func"] or "").startswith("py::")]
