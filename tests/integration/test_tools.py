"""The scripts that guard the build do find what they are there to find."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import arm64_tests
import check_fuzzers
import check_layers
import check_symbols
import harness
import lint
import pytest
import run_tests
import side_by_side
import stage

TABLE = {
    "uses": {"base": [], "arch": [], "process": [], "inject": ["process"], "server": ["process"]},
    "only": {"sys/ptrace.h": ["process"], "Python.h": []},
    "words": {"arch": ["rip", "__x86_64__"]},
    "exceptions": {"allowed": ["server"]},
}


def layer_errors(tmp_path: Path, **files: str) -> list[str]:
    """Errors in a source tree of these files: {"inject/a.cc": …}, given as inject__a_cc=…."""
    for name, text in files.items():
        folder, _, rest = name.partition("__")
        path = (
            tmp_path / "src" / folder / rest.replace("_cc", ".cc").replace("_h", ".h").replace("_txt", ".txt")
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "README.md").write_text("# x\n")
    return check_layers.check(tmp_path / "src", TABLE).errors


def test_listed_edges_are_fine(tmp_path: Path) -> None:
    code = '#include "inject/a.h"\n#include "base/result.h"\n#include "process/maps.h"\n#include <vector>\n'
    assert layer_errors(tmp_path, inject__a_cc=code) == []


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("base__a_cc", '#include "process/maps.h"\n', "src/base/a.cc:1: base may not use process"),
        ("process__a_cc", '\n#  include "inject/x.h"\n', "src/process/a.cc:2: process may not use inject"),
        ("inject__a_cc", "#include <sys/ptrace.h>\n", "<sys/ptrace.h> is allowed only in process"),
        ("inject__a_cc", "#include <Python.h>\n", "<Python.h> is allowed nowhere"),
        ("inject__a_cc", "void f() { throw 1; }\n", "'throw' in inject: no exceptions here"),
        ("inject__a_h", "void f() {\n  try {\n", "src/inject/a.h:2: 'try' in inject"),
        ("inject__a_cc", '#include "maps.h"\n', "write paths from src/"),
        ("inject__CMakeLists_txt", "probing_library(inject DEPS base server)\n", "inject may not use server"),
        ("inject__CMakeLists_txt", "probing_library(inject EXCEPTIONS DEPS base)\n", "EXCEPTIONS in inject"),
        ("inject__a_cc", "\nvoid f() { r.rip = 0; }\n", "src/inject/a.cc:2: 'rip' is allowed only in arch"),
        ("inject__a_h", "#if defined(__x86_64__)\n", "'__x86_64__' is allowed only in arch"),
        ("unknown__a_cc", "", "folder unknown is not in tools/layers.toml"),
    ],
)
def test_a_breach_of_the_dependency_rule_is_found(tmp_path: Path, file: str, text: str, message: str) -> None:
    errors = layer_errors(tmp_path, **{file: text})
    assert any(message in error for error in errors), errors


def test_an_edge_that_nothing_includes_is_found(tmp_path: Path) -> None:
    layer_errors(tmp_path, inject__a_cc='#include "process/maps.h"\n', arch__a_cc="int rip, description;\n")
    checker = check_layers.check(tmp_path / "src", TABLE)
    assert checker.errors == []
    checker.check_unused()
    assert checker.errors == ["tools/layers.toml: server uses process, but includes nothing of it"]


def test_words_in_comments_and_strings_are_no_exceptions(tmp_path: Path) -> None:
    code = '// never throw\n/* try\n   again */\nconst char* kText = "try \\" to catch";\nint retry;\n'
    assert layer_errors(tmp_path, inject__a_cc=code) == []
    assert layer_errors(tmp_path, server__a_cc="void f() { throw 1; }\n") == []


def test_a_folder_needs_a_short_readme(tmp_path: Path) -> None:
    assert layer_errors(tmp_path, base__a_cc="") == []
    readme = tmp_path / "src/base/README.md"
    readme.write_text("line\n" * 31)
    assert "31 lines" in check_layers.check(tmp_path / "src", TABLE).errors[0]
    readme.unlink()
    assert "no README.md" in check_layers.check(tmp_path / "src", TABLE).errors[0]


def test_a_cycle_in_the_table_is_found(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    table = TABLE | {"uses": {"process": ["inject"], "inject": ["process"]}}
    assert "which is not above it" in check_layers.check(tmp_path / "src", table).errors[0]


def test_the_table_is_read_alike_without_tomllib(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (check_layers.ROOT / "tools/layers.toml").read_text()
    with_library = check_layers.parse_toml(text)
    monkeypatch.setitem(__import__("sys").modules, "tomllib", None)
    assert check_layers.parse_toml(text) == with_library


def compile_library(tmp_path: Path, code: str, *flags: str) -> Path:
    source, library = tmp_path / "x.c", tmp_path / "libx.so"
    source.write_text(code)
    subprocess.run(["gcc", "-shared", "-fPIC", *flags, "-o", str(library), str(source)], check=True)
    return library


def test_a_good_library_passes(tmp_path: Path) -> None:
    assert check_symbols.check(compile_library(tmp_path, "int probing_active(void) { return 1; }")) == []


@pytest.mark.parametrize(
    ("code", "flags", "message"),
    [
        ("int helper(void) { return 1; }", [], "exports helper"),
        ("int probing_x(void) { return 1; }", ["-Wl,-z,execstack"], "executable stack"),
        ("int probing_x(void) { return 1; }", ["-Wl,--no-as-needed", "-lresolv"], "needs libresolv.so.2"),
        (
            "#include <stdlib.h>\nlong probing_x(void) { return arc4random(); }",
            ["-D_GNU_SOURCE"],
            "GLIBC_2.36",
        ),
        ("char probing_x[4 << 20] = {1};", [], "at most"),
    ],
)
def test_a_library_that_could_not_be_loaded_everywhere_is_found(
    tmp_path: Path, code: str, flags: list[str], message: str
) -> None:
    errors = check_symbols.check(compile_library(tmp_path, code, *flags))
    assert any(message in error for error in errors), errors


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("Result<Thing> ParseThing(std::string_view text);", True),
        (
            "static std::optional<Thing> Decode(std::span<const std::byte> bytes,\n    int n);",
            True,
        ),
        ("Result<Answer> ReadAnswer(net::Channel& channel);", True),
        ("bool UnpackRows(const std::string& packed, Rows& rows);", True),
        ("// ParseThing(std::string_view text)\nint Count(std::string_view text);", False),
        ("inline int Count(std::string_view text) { return ParseThing(std::string(text)); }", False),
    ],
)
def test_a_parser_without_a_fuzzer_is_found(tmp_path: Path, header: str, found: bool) -> None:
    (tmp_path / "src/one").mkdir(parents=True)
    (tmp_path / "src/one/thing.h").write_text(header)
    problems = check_fuzzers.problems(tmp_path / "src", {}, tmp_path)
    assert bool(problems) == found, problems


def test_a_fuzzer_calls_what_it_is_said_to_and_has_seeds(tmp_path: Path) -> None:
    (tmp_path / "src/one").mkdir(parents=True)
    (tmp_path / "src/one/thing.h").write_text("Result<Thing> ParseThing(std::string_view text);")
    fuzzer = tmp_path / "src/one/thing_fuzz.cc"
    fuzzer.write_text("(void)ParseThings(text);")
    known = {"one/thing.h ParseThing": "thing_fuzz"}
    assert len(check_fuzzers.problems(tmp_path / "src", known, tmp_path / "corpus")) == 2
    fuzzer.write_text("(void)ParseThing(text);")
    (tmp_path / "corpus/thing_fuzz").mkdir(parents=True)
    (tmp_path / "corpus/thing_fuzz/seed").write_text("x")
    assert check_fuzzers.problems(tmp_path / "src", known, tmp_path / "corpus") == []
    assert check_fuzzers.problems(
        tmp_path / "src", known | {"one/gone.h Read": "trusted: x"}, tmp_path / "corpus"
    )


def test_every_parser_of_untrusted_bytes_has_a_fuzzer() -> None:
    assert check_fuzzers.main() == 0


def test_names_of_machines_are_found_and_others_are_not() -> None:
    assert lint.REGISTRY_HOST.search("get it from https://" + "files.python" + "hosted.org/x")
    assert lint.HOME_PATH.search('"/' + 'root/.cache"')
    assert lint.HOME_PATH.search("cd /" + "home/me")
    for fine in ("/proc/PID/root/tmp", "/proc/{pid}/root/tmp", "PyPI", "apache.org", "at /root"):
        assert not lint.REGISTRY_HOST.search(fine) and not lint.HOME_PATH.search(fine), fine


# ── tests side by side ───────────────────────────────────────────────────────────────────────


def run_apart(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(side_by_side.APART), *command], capture_output=True, text=True)


def test_what_runs_apart_meets_nobody_and_leaves_nothing(tmp_path: Path) -> None:
    if run_apart().returncode != 0:
        pytest.skip("no namespaces can be made here")
    (marker := Path(f"/tmp/apart-{tmp_path.name}")).touch()
    done = run_apart("sh", "-c", "ls /tmp /dev/shm; echo $$; sleep 99 & exit 3")  # which goes with it
    marker.unlink()
    assert done.returncode == 3, done
    assert marker.name not in done.stdout
    assert int(done.stdout.split()[-1]) < 100, "processes of its own"


@pytest.fixture
def few_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tests instead of ours, and results of its own."""
    (tmp_path / "test_a.py").write_text("def test_good():\n    pass\n")
    (tmp_path / "test_b.py").write_text("def test_bad():\n    assert 1 == 2\n")
    (tmp_path / "test_c.py").write_text("import os\nos._exit(9)\n")
    for name, path in (("TESTS", ""), ("PARTS", "parts"), ("CACHES", "caches")):
        monkeypatch.setattr(side_by_side, name, tmp_path / path)
    (tmp_path / "parts").mkdir()

    def run_file(name: str, nodes: list[str], arguments: list[str]) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-q", f"{tmp_path}/{name}.py", "-p", "no:cacheprovider"]
        command += [f"--junit-xml={tmp_path}/parts/{name}.xml", "-c", "/dev/null", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        return done.returncode, done.stdout

    monkeypatch.setattr(side_by_side, "run_file", run_file)
    return tmp_path


def test_files_that_ran_side_by_side_are_counted_together(few_tests: Path) -> None:
    runner = side_by_side.Runner([], [])
    runner.run({"test_a", "test_b", "test_c"}, 2)
    side_by_side.merge(runner.codes, few_tests / "all.xml")
    suite = run_tests.Suite("x", [], cases=run_tests.read_cases("x", few_tests / "all.xml"))
    assert suite.passed == 1
    assert [case.name for case in suite.failed] == ["test_bad", "test_c"], "one that died is a failure"


# ── what is tried again, and what the last lines say ─────────────────────────────────────────

HARMS = """
import os, signal
import pytest
from harness import has_ended, wait_until

@pytest.mark.load_dependent("a reason")
def test_of_time(tmp_path):
    assert False, "too slow"

@pytest.mark.parametrize("how", ["exit", "kill", "stop", "segv", "asked"])
@pytest.mark.load_dependent("a reason")
def test_of_a_target(target, how):
    job = target("sleep")
    if how == "exit":
        job.process.send_signal(signal.SIGUSR1)
    elif how == "asked":
        os.kill(job.pid, signal.SIGKILL)
        job.process.wait()
    else:
        os.kill(job.pid, {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "segv": signal.SIGSEGV}[how])
    if how in ("exit", "kill", "segv"):
        wait_until(lambda: has_ended(job.pid), 10)
    if how == "stop":
        wait_until(job.is_stopped, 10)

@pytest.mark.parametrize("python", ["3.5"])
def test_with(python):
    pass
"""


@pytest.fixture(scope="module")
def harmed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, run_tests.Case]:
    """Tests that end their targets in all ways, with our conftest.py; by name."""
    folder = tmp_path_factory.mktemp("harmed")
    own = harness.ROOT / "tests/integration"
    (folder / "conftest.py").write_text(
        f"import sys; sys.path.insert(0, {str(own)!r})\n"
        f"exec(compile(open({str(own / 'conftest.py')!r}).read(), 'conftest.py', 'exec'))\n"
        "harness.SUPPORTED = ((3, 5),)\n"
    )
    (folder / "test_harms.py").write_text(HARMS)
    junit = folder / "all.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={junit}"]
    command += ["-c", str(harness.ROOT / "pyproject.toml"), "--rootdir", str(folder), str(folder)]
    subprocess.run(command, capture_output=True, cwd=folder, timeout=60)
    return {case.name: case for case in run_tests.read_cases("x", junit)}


def test_a_target_that_ended_or_stands_still_unasked_is_harm(harmed: dict[str, run_tests.Case]) -> None:
    for how in ("exit", "kill", "stop", "segv"):
        case = harmed[f"test_of_a_target[{how}]"]
        assert case.failed and case.harm, how
        assert run_tests.to_try_again([case]) == [], "it may depend on the load, but never harm"
    assert not harmed["test_of_a_target[asked]"].failed


def test_only_what_depends_on_the_load_is_tried_again(harmed: dict[str, run_tests.Case]) -> None:
    slow = harmed["test_of_time"]
    assert slow.failed and slow.load_dependent == "a reason" and not slow.harm
    assert run_tests.to_try_again([slow]) == [slow]
    plain = run_tests.Case("x", "f", "test_plain", failed=True)
    assert run_tests.to_try_again([plain]) == []
    assert run_tests.to_try_again([slow, plain]) == [], "the run is red already"
    twice = [run_tests.Case("x", "f", f"test_y[{n}]", failed=True, load_dependent="z") for n in (1, 2)]
    assert run_tests.to_try_again(twice) == [], "the same test, unsteady twice"
    many = [run_tests.Case("x", "f", f"test_{n}", failed=True, load_dependent="z") for n in range(6)]
    assert run_tests.to_try_again(many) == [] and run_tests.to_try_again(many[:5]) == many[:5]


def test_a_python_that_is_missing_is_skipped_by_name_and_told(harmed: dict[str, run_tests.Case]) -> None:
    case = harmed["test_with[3.5]"]
    assert case.skipped == "no Python 3.5 on this machine (pyenv install 3.5)"
    assert run_tests.is_allowed(case)
    assert not run_tests.is_allowed(run_tests.Case("x", "f", "test_z", skipped="no pandas here"))
    passed = [run_tests.Case("x", "f", f"test_z[{one}-a]") for one in ("3.6.15", "3.11.7", "3.14t")]
    line = run_tests.python_line([*passed, passed[0], run_tests.Case("x", "f", "t[3.7.1]", skipped="no")])
    assert line.startswith("Pythons tested: 3.6.15 (2), 3.11.7 (1), 3.14t (1); NOT TESTED: 3.7, 3.8, 3.9,")
    assert line.endswith("3.13; not here: 3.14, 3.13t (make pythons)")


def test_the_second_try_decides_and_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def suite(second: list[run_tests.Case]) -> run_tests.Suite:
        first = run_tests.Case("x", "a.b", "test_y[1]", failed=True, load_dependent="z")
        answers = [[first, run_tests.Case("x", "a.b", "test_w")], second]
        commands = []

        def run_once(self: run_tests.Suite, command: list[str], why: str = "") -> list[run_tests.Case]:
            commands.append(command)
            return answers.pop(0)

        monkeypatch.setattr(run_tests.Suite, "run_once", run_once)
        one = run_tests.Suite("x", ["run"], can_try_again=True)
        one.run()
        assert commands == [["run"], ["run", "--again", "a/b.py::test_y[1]"]]
        return one

    held = suite([run_tests.Case("x", "a.b", "test_y[1]")])
    assert (held.passed, len(held.failed), [one.name for one in held.unsteady]) == (2, 0, ["test_y[1]"])
    for second in (
        [],  # it was not found
        [run_tests.Case("x", "a.b", "test_y[1]", failed=True)],
        [run_tests.Case("x", "a.b", "test_y[1]", skipped="no torch")],
    ):
        again = suite(second)
        assert (again.passed, len(again.failed), again.unsteady) == (1, 1, [])


# ── another processor ────────────────────────────────────────────────────────────────────────


def test_every_test_that_is_listed_for_arm64_exists() -> None:
    missing = []
    for listed in (*arm64_tests.CORE, *arm64_tests.MORE):
        file, _, function = listed.partition("::")
        text = (harness.ROOT / "tests/integration" / file).read_text()
        if function and f"def {function.partition('[')[0]}(" not in text:
            missing.append(listed)
    assert missing == []


def test_the_processor_of_programs_is_read_from_their_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "probing").write_bytes(b"\x7fELF" + bytes(14) + (183).to_bytes(2, "little"))
    monkeypatch.setattr(stage, "BIN", tmp_path)
    assert stage.processor() == "aarch64"
    monkeypatch.setattr(stage, "BIN", harness.BIN)
    assert stage.processor() == platform.machine()
