"""What the documents say: links lead somewhere, queries run, names exist, generated pages are complete."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import check_layers
import harness
import help_text
import library_pages
import make_docs
import pytest
import reference_pages
from harness import Cli, Target, wait_until

DOCS = harness.ROOT / "docs"
# A block of the cookbook, and what is said about it in a comment before.
BLOCK = re.compile(r"(<!-- may be empty -->\n)?```sql\n(.*?)```", re.DOTALL)
GUIDE_QUERY = re.compile(r'^    probing (?:-t PID )?query "([^"]+)"$', re.MULTILINE)

COMMAND = re.compile(r"^ {4}(?:\$ )?(?:PROBING\w*=\S+ )?probing ([-\w][^─\n]*?)(?: {2,}#.*)?$", re.MULTILINE)


def cookbook() -> list[tuple[str, bool]]:
    """(SQL, whether there must be rows)"""
    return [(sql, not empty) for empty, sql in BLOCK.findall((DOCS / "cookbook.md").read_text())]


def guide_queries() -> list[str]:
    pages = [*DOCS.glob("*.md"), *(DOCS / "guides").glob("*.md")]
    return sorted({sql for page in pages for sql in GUIDE_QUERY.findall(page.read_text())})


def commands() -> list[tuple[str, ...]]:
    """Lines that somebody would type: words of `probing …`, without a target and what a pipe leads to."""
    found = set()
    for page in [*DOCS.rglob("*.md"), harness.ROOT / "README.md", harness.ROOT / "README.cn.md"]:
        found |= set(COMMAND.findall(page.read_text()))
    lines = (shlex.split(line.split(" | ")[0]) for line in found if line.count('"') % 2 == 0)
    return sorted({tuple(words[2:] if words[0] == "-t" else words) for words in lines})


def cpp_tests() -> set[str]:
    sources = harness.ROOT.glob("src/**/*_test.cc")
    macro = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)
    return {f"{suite}.{name}" for path in sources for suite, name in macro.findall(path.read_text())}


def python_tests() -> set[str]:
    sources = harness.ROOT.glob("tests/integration/test_*.py")
    return {
        name for path in sources for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }


# ── pages ────────────────────────────────────────────────────────────────────────────────────


def test_links_of_the_documents_lead_somewhere() -> None:
    pages = [*make_docs.pages(), harness.ROOT / "README.md", harness.ROOT / "README.cn.md"]
    assert [link for page in pages for link in make_docs.dead_links(page)] == []


def test_a_dead_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_docs, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("[a](page.md) [b](gone.md#x) [c](https://example.org/) ![d](gone.png)")
    assert make_docs.dead_links(page) == ["page.md: gone.md#x"]


def test_links_beyond_the_site_become_names_of_files() -> None:
    page = DOCS / "guides/x.md"
    text = "[security](security.md#tokens) [tables](../reference/tables.md) [who](../../ARCHITECTURE.md) "
    text += "[web](../../web/README.md)"
    assert make_docs.rewrite(page, text) == (
        "[security](../guides/security.md#tokens) [tables](../reference/tables.md) [who](../architecture.md) "
        "web (`web/README.md`)"
    )


def test_a_page_that_nobody_put_into_the_menu_is_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_docs, "GENERATED", ("reference/api.md", "reference/new.md"))
    lines = make_docs.configuration().splitlines()
    assert lines[-1] == "  - reference/new.md"
    assert sum("reference/api.md" in line for line in lines) == 1


def test_the_reference_has_every_command_setting_and_route(probing: Cli) -> None:
    helps = help_text.read_all(harness.BIN)
    page = reference_pages.commands_page(helps)
    for about in helps[1:]:
        assert f"## {about.name}\n\n{about.summary}\n" in page
        assert probing(*about.name.split()[1:], "--help").stdout.startswith(about.summary)
    declared = (harness.ROOT / "src/wire/settings.cc").read_text().count(" Setting{")
    assert len(reference_pages.settings()) == declared > 20
    assert (
        "| `probing.query.timeout` | `10` | probingd | how long one query may take |"
        in reference_pages.settings_page()
    )
    routes = json.loads((harness.ROOT / "src/daemon/openapi.json").read_text())["paths"]
    assert all(f" {route}\n" in reference_pages.api_page() for route in routes)


def test_every_public_name_of_the_package_and_of_the_header_is_explained() -> None:
    page = library_pages.python_page()
    sections = page.split("\n## probing.")[1:]
    assert [section.split("\n")[0] for section in sections] == library_pages.public_names()
    for section in sections:
        for signature, text in re.findall(r"^    (\w.*\) -> .*)\n\n(.*)$", section, re.MULTILINE):
            assert text, f"nothing is said about {signature}"
    exported = re.findall(r"^PROBING_EXPORT .*?(\w+)\(", library_pages.HEADER.read_text(), re.MULTILINE)
    assert len(exported) > 5
    for name in exported:
        assert re.search(rf"\*/\nPROBING_EXPORT .*{name}\(", library_pages.c_page()), name


# ── names that documents use ─────────────────────────────────────────────────────────────────


def test_the_folders_of_the_architecture_are_those_of_the_layers() -> None:
    text = (harness.ROOT / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `src/(\w+)` \|.*\| ?([^|]*?) ?\|$", text, re.MULTILINE)
    told = {folder: set(filter(None, uses.split(", "))) - {"base"} for folder, uses in rows}
    layers = check_layers.parse_toml((harness.ROOT / "tools/layers.toml").read_text())["uses"]
    assert told == {folder: set(uses) for folder, uses in layers.items()}


def test_the_files_that_the_tour_names_exist() -> None:
    named = re.findall(r"`((?:src|python|web|tools)/[^`]+)`", (DOCS / "design/tour.md").read_text())
    assert len(named) > 80
    assert [path for path in named if not (harness.ROOT / path).exists()] == []


@pytest.mark.parametrize("page", ["faults.md", "design/safety.md"])
def test_every_fault_has_tests_that_exist(page: str) -> None:
    known = cpp_tests() | python_tests()
    rows = [line for line in (DOCS / page).read_text().splitlines() if line.startswith("| ")]
    rows = [row for row in rows if "| test |" not in row]
    assert len(rows) > 30
    for row in rows:
        named = re.findall(r"`([\w.]+)`", row.rpartition(" | ")[2])
        assert named and set(named) <= known, f"{row}: {set(named) - known}"


def test_messages_of_the_troubleshooting_page_exist() -> None:
    sources = "".join(path.read_text() for path in harness.ROOT.glob("src/**/*.cc"))
    messages = re.findall(
        r"`([^`]+)`", "\n".join(re.findall(r"^### (.*)$", (DOCS / "troubleshooting.md").read_text(), re.M))
    )
    assert len(messages) > 20
    for message in messages:
        for part in filter(None, (piece.strip() for piece in message.split("…"))):
            assert part in sources, f"no source says {part!r}"


# ── queries ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def job(probing: Cli, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A target that was entered and watched for some rows of every series."""
    command = [sys.executable, str(harness.TARGETS / "target_training.py")]
    running = Target(command, tmp_path_factory.mktemp("job"), {})
    probing("-t", running.pid, "inject").expect(0)
    for table in ("system.cpu", "system.threads", "system.memory", "python.samples"):
        ask = f"SELECT count(*) AS n FROM {table}"
        wait_until(lambda ask=ask: harness.rows(probing, ask, running.pid)[0]["n"] > 1, 30, table)
    yield running
    running.expect_unharmed()
    running.kill()


Rows = Callable[[str], list[dict[str, object]]]


@pytest.fixture
def ask(probing: Cli, job: Target) -> Rows:
    return lambda sql: harness.rows(probing, sql, job.pid)


def test_commands_of_the_documents_have_these_options(probing: Cli) -> None:
    every = commands()
    assert len(every) > 40
    for words in every:
        known = probing(words[0], "--help").expect(0).stdout
        for option in (word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word)):
            assert re.search(rf"[ ,]{option}\b", known), f"probing {words[0]} has no {option}: {words}"


# The rest needs a second host, a terminal, or a condition that this job does not meet.
RUN = {
    "backtrace",
    "inject",
    "config",
    "list",
    "tables",
    "memory",
    "doctor",
    "version",
    "completion",
    "query",
}
RUN_ONCE = {"top"}  # with --once only
OF_DAEMON = ("probing.stalls.limit", "probing.outlets.", "probing.incident.")
NEEDS_MORE = ("--job", "--leaks", "--gpu", "--watch", "probing.server.certificate=")


def test_commands_of_the_documents_work(probing: Cli, job: Target) -> None:
    some = [words for words in commands() if words[0] in RUN or (words[0] in RUN_ONCE and "--once" in words)]
    for words in some:
        if words[0] == "query" and "-f" not in words:
            continue  # those run by themselves, below
        if not any(word.startswith(NEEDS_MORE) for word in words):
            takes = {"backtrace", "inject", "config", "memory", "top"}
            of_daemon = words[0] == "config" and any(word.startswith(OF_DAEMON) for word in words)
            target = ["-t", str(job.pid)] if words[0] in takes and not of_daemon else []
            probing(*target, *(word.replace("4711", str(job.pid)) for word in words)).expect(0)
    assert len(some) > 10
    probing("-t", job.pid, "config", "probing.torch.profiling=off").expect(0)


@pytest.mark.parametrize(("sql", "has_rows"), cookbook(), ids=lambda value: str(value).split("\n")[0][:40])
def test_a_query_of_the_cookbook_runs(ask: Rows, sql: str, has_rows: bool) -> None:
    rows = ask(sql)
    assert rows or not has_rows


@pytest.mark.parametrize("sql", guide_queries(), ids=lambda sql: sql[:40])
def test_a_query_of_the_guides_runs(ask: Rows, sql: str) -> None:
    ask(sql)


@pytest.mark.parametrize("name", ["torchrun", "accelerate", "deepspeed", "ray", "lightning"])
def test_the_first_line_of_a_framework_is_that_of_the_launchers(name: str) -> None:
    """Lines of launchers.md are run by test_start_hook.py and test_frameworks.py."""
    lines = re.findall(r"^    (PROBING=1 .*)$", (DOCS / f"guides/{name}.md").read_text(), re.MULTILINE)
    assert len(lines) == 1
    assert f"`{lines[0]}`" in (DOCS / "guides/launchers.md").read_text()
