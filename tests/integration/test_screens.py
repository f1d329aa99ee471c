"""What people see in a terminal of 80 by 24: top, the SQL shell, tables and stacks in colour, completion."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import harness
import pytest
from harness import Cli, Target
from terminal import ESCAPES, Terminal

StartTarget = Callable[..., Target]
OpenScreen = Callable[..., Terminal]
SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[OpenScreen]:
    """Runs a command in a terminal of 80 columns and 24 rows."""
    opened: list[Terminal] = []

    def open_one(*command: object, **options: object) -> Terminal:
        opened.append(Terminal(*command, columns=80, rows=24, XDG_STATE_HOME=str(tmp_path), **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


# ── top ──────────────────────────────────────────────────────────────────────────────────────


def pictures(raw: str) -> list[list[str]]:
    """What top has painted: the lines of each whole screen."""
    painted = [part.split("\x1b[J")[0] for part in raw.split("\x1b[H")[1:] if "\x1b[J" in part]
    return [[ESCAPES.sub("", line) for line in part.split("\n")] for part in painted]


def expect_fits(raw: str) -> None:
    shown = pictures(raw)
    assert shown
    for lines in shown:
        assert len(lines) == 24
        assert max(map(len, lines)) <= 80, lines


def test_top_fits_and_its_keys_work(target: StartTarget, screen: OpenScreen) -> None:
    job = target("threads", 30) if (harness.TARGETS / "target_threads.py").exists() else target("shares")
    session = screen("-t", job.pid, "top")
    session.expect(r"GIL +\d+\.\d%.*CPU +\d+\.\d%.*\d+ threads?")
    session.expect(r"%OWN▼ +%TOTAL +OWN +TOTAL +FUNCTION")
    session.send("4")
    session.expect(r"TOTAL▼ +FUNCTION")
    session.send("t")
    session.expect(r"TID +CPU +GIL +NAME +IN")
    session.expect(rf"{job.pid} ")
    session.send("?")
    session.expect("most own time in the last second")
    session.send("a")
    session.expect("no asyncio task is there")
    session.send("f")
    session.expect("FUNCTION")
    session.send("g")
    session.expect("only with the GIL")
    session.send("j\x1b[6~\x1b[Ak")
    session.send("q")
    assert session.wait() == 0
    expect_fits(session.raw)


def test_top_shows_functions_with_what_they_took(target: StartTarget, screen: OpenScreen) -> None:
    session = screen("-t", target("shares").pid, "top")
    session.expect(r"hot \(target_shares\.py:\d+\)")
    session.expect(
        r" *\d+\.\d% +\d+\.\d% +[1-9]\.\d\ds +\d\.\d\ds +\w+ \(target_shares\.py:\d+\)"
    )  # after a second
    session.send("q")
    assert session.wait() == 0


def test_top_lists_tasks_of_asyncio(target: StartTarget, screen: OpenScreen) -> None:
    code = (
        "import asyncio, sys\nasync def wait_for_it():\n    await asyncio.sleep(1000)\n"
        "async def main():\n    tasks = [asyncio.create_task(wait_for_it(), name='slow-one')]\n"
        "    print('ready', flush=True)\n    await tasks[0]\nasyncio.run(main())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        job.stdout.readline()
        session = screen("-t", job.pid, "top")
        session.expect("FUNCTION")
        session.send("a")
        session.expect(r"slow-one +waiting +wait_for_it \(<string>:3\)")
        session.send("q")
        assert session.wait() == 0
        job.kill()


# ── SQL ──────────────────────────────────────────────────────────────────────────────────────

SQL = r"sql> "


@pytest.fixture
def job(probing: Cli, target: StartTarget) -> Target:
    started = target("shares")
    probing("status").expect(0)
    return started


def test_the_sql_shell_takes_statements_of_several_lines(job: Target, screen: OpenScreen) -> None:
    session = screen("-t", job.pid, "sql")
    session.expect(SQL)
    session.send("SELECT 40 + 2 AS answer,\r")
    session.expect(r"  -> ")
    session.send("';' AS text;\r")
    session.expect(r"answer │ text.*42 │ ;.*\(1 row\)")
    session.expect(SQL)
    assert "\x1b[35mSELECT" in session.raw  # colours of what is typed
    assert "\x1b[1m answer │ text" in session.raw  # and of the header
    session.send("\x1b[A\r")  # history: the whole statement again
    session.expect(r"42 │ ;")
    session.expect(SQL)
    session.send("SELECT nosuch FROM python.stacks;\r")
    session.expect("column nosuch does not exist")
    session.expect(SQL)
    session.send("\x04")
    assert session.wait() == 0


def test_the_sql_shell_completes(job: Target, screen: OpenScreen) -> None:
    session = screen("-t", job.pid, "sql")
    session.expect(SQL)
    session.send("SELECT thread_name FROM python.stac\t")
    session.expect(r"python\.stacks")
    session.send(" WHERE wait_ch\t")
    session.expect("wait_channel")
    session.send(" IS NULL OR true;\r")
    session.expect(r"thread_name.*\(\d+ rows?\)")
    session.expect(SQL)
    session.send(".sch\t")
    session.expect(r"\.schema")
    session.send(" system.proc\t")
    session.expect(r"system\.process")
    session.send("\r")
    session.expect(r"column_name.*rss.*bytes")
    session.expect(SQL)


def test_dot_commands(job: Target, screen: OpenScreen, tmp_path: Path) -> None:
    session = screen("-t", job.pid, "sql")
    session.expect(SQL)
    for typed, shown in (
        (".tables torch_st", r"python\.torch_steps"),
        (".schema nosuch", "table nosuch does not exist"),
        (".mode xml", r"there is no format xml.*table\|csv"),
        (".mode csv", SQL),
        ("SELECT 1 AS a;", r"a\s+1\s"),
        (".mode table", SQL),
        (".timer on", SQL),
        ("SELECT 1 AS a;", r"\(1 row\)\s+\d+\.\d ms"),
        (".watch 0.05 SELECT 7 AS seven", r"seven.*\(1 row\).*seven.*\(1 row\)"),
    ):
        session.send(typed + "\r")
        session.expect(shown)
        if shown != SQL and not typed.startswith(".watch"):
            session.expect(SQL)
    session.send("\x03")
    session.expect(SQL)
    session.send(f".output {tmp_path}/out.txt\r")
    session.expect(SQL)
    session.send("SELECT 5 AS five;\r")
    session.expect(r"\d ms")
    session.expect(SQL)
    session.send(".quit\r")
    assert session.wait() == 0
    assert "five" in (tmp_path / "out.txt").read_text()


def test_control_c_ends_the_query_and_not_the_shell(job: Target, screen: OpenScreen) -> None:
    session = screen("-t", job.pid, "sql")
    session.expect(SQL)
    session.send("SELECT count(*) FROM range(1000000) a, range(1000000) b;\r")
    session.expect(r"b;\s")
    session.send("\x03")
    session.expect("interrupted")
    session.expect(SQL)
    session.send("SELECT 6 * 7;\r")
    session.expect("42")


def test_statements_from_a_pipe(probing: Cli, job: Target, tmp_path: Path) -> None:
    (tmp_path / "report.sql").write_text("-- a report\nSELECT 1 AS one;\nSELECT 2\n  AS two")
    text = probing(
        "-t", job.pid, "sql", stdin=f".mode csv\n.read {tmp_path}/report.sql\nSELECT 3 AS three"
    ).expect(0)
    assert text.stdout == "one\r\n1\r\ntwo\r\n2\r\nthree\r\n3\r\n"
    assert (
        "column nope does not exist"
        in probing("sql", stdin="SELECT nope FROM system.process").expect(2).stderr
    )


# ── tables ───────────────────────────────────────────────────────────────────────────────────


def test_numbers_have_the_units_of_their_columns(probing: Cli, job: Target) -> None:
    ask = "SELECT rss, max(rss) AS most, rss / 1024 AS kb, cpu_percent FROM system.process GROUP BY ALL"
    table = probing("-t", job.pid, "query", ask).expect(0).stdout.splitlines()[2]
    assert re.fullmatch(r" *(\d[\d.]* MB) │ *\1 │ *[\d.]+ │ *\d+\.\d %", table), table
    exact = probing("-t", job.pid, "query", "-f", "csv", ask).expect(0).stdout.splitlines()[1]
    assert re.fullmatch(r"\d{6,},\d{6,},[\d.]+,[\d.]+", exact), exact


def test_mistakes_in_sql_are_wrong_usage_and_say_what_was_meant(probing: Cli) -> None:
    table = probing("query", "SELECT * FROM python.stack").expect(2).stderr
    assert "table python.stack does not exist" in table
    assert "did you mean python.stacks? `probing tables` lists all tables" in table
    column = probing("query", "SELECT cpu_percnt FROM system.process").expect(2).stderr
    assert "column cpu_percnt does not exist" in column
    assert "did you mean cpu_percent?" in column
    assert "pg_" not in table + column
    assert "parquet" in (formats := probing("query", "-f", "xml", "SELECT 1").expect(2).stderr)
    assert "frame" not in formats


@pytest.mark.parametrize("words", [["list"], ["config"], ["ps"], ["tables"], ["--help"]])
def test_lines_fit_into_80_columns(probing: Cli, job: Target, screen: OpenScreen, words: list[str]) -> None:
    probing("-t", job.pid, "inject").expect(0)
    session = screen(*words)
    assert session.wait() == 0
    lines = session.seen.splitlines()
    assert len(lines) >= 2
    if words != ["--help"]:
        assert max(map(len, lines)) <= 80, max(lines, key=len)


def test_stacks_have_colours_on_a_terminal(screen: OpenScreen, probing: Cli) -> None:
    code = "import threading\nprint('ready', flush=True)\nthreading.Event().wait()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        job.stdout.readline()
        session = screen("-t", job.pid, "backtrace")
        assert session.wait() == 0
        assert re.search(r"\x1b\[36mThread \d+ .*\x1b\[0m", session.raw)
        assert re.search(r"\x1b\[2mEvent\.wait \(threading\.py:\d+\)\x1b\[0m", session.raw), session.raw
        assert re.search(r"\x1b\[1m<module> \(<string>:3\)\x1b\[0m", session.raw)
        assert "\x1b" not in probing("-t", job.pid, "backtrace").expect(0).stdout
        session = screen("-t", job.pid, "backtrace", NO_COLOR="1")
        assert session.wait() == 0
        assert not SGR.search(session.raw)
        job.kill()


# ── what else a new user meets ───────────────────────────────────────────────────────────────


def test_inject_into_a_program_without_python_is_refused(probing: Cli) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        answer = probing("-t", process.pid, "inject").expect(1)
        assert "sleep 60 has no Python in it" in answer.stderr
        assert "--no-python" in answer.stderr
        assert harness.probe_socket(process.pid) is None
        process.kill()


def complete(probing: Cli, line: str) -> list[str]:
    """What bash offers at the end of the line, split into words as bash does."""
    words = [word for word in re.split(r"( |[:=])", line) if word not in ("", " ")]
    if line.endswith(" "):
        words.append("")
    script = (
        f"export PATH={probing.bin}:$PATH; source <(probing completion bash); "
        f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}; "
        '_probing; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_bash_completes_values(probing: Cli, job: Target) -> None:
    assert str(job.pid) in complete(probing, "probing -t ")
    assert "target_shares.py" in complete(probing, "probing -t target_sh")
    assert not [word for word in complete(probing, "probing -t ") if not word.isascii()]
    assert complete(probing, "probing query -f js") == ["json", "jsonl"]
    assert complete(probing, "probing record --format sp") == ["speedscope"]
    assert complete(probing, "probing config probing.eval.time") == ["probing.eval.timeout"]
    assert complete(probing, "probing tables python.torch_st") == ["python.torch_steps"]
    assert complete(probing, "probing completion fi") == ["fish"]


def test_bash_completes_ranks_behind_their_colon(probing: Cli, target: StartTarget) -> None:
    target("sleep", RANK="3", WORLD_SIZE="4", LOCAL_RANK="3", MASTER_ADDR="localhost", MASTER_PORT="29500")
    assert complete(probing, "probing -t rank:") == ["3"]


def test_values_say_what_they_are(probing: Cli, job: Target) -> None:
    lines = probing("completion", "--values", "targets").expect(0).stdout.splitlines()
    assert any(line.startswith(f"{job.pid}\t") and "target_shares.py" in line for line in lines)
    assert probing("completion", "--values", "nosuch").expect(2).stderr
    environment = harness.clean_environment(PATH=f"{probing.bin}:{os.environ['PATH']}")
    for shell, check in (
        ("zsh", "autoload -Uz compinit; compinit -u; source <(probing completion zsh); whence -w _probing"),
        ("fish", "probing completion fish | source; complete -C 'probing query -f js'"),
    ):
        which = subprocess.run(["which", shell], capture_output=True)
        if which.returncode == 0:
            done = subprocess.run(
                [shell, "-c", check], env=environment, capture_output=True, text=True, timeout=30
            )
            assert done.returncode == 0, done.stderr
            assert "function" in done.stdout or "jsonl" in done.stdout, done.stdout
