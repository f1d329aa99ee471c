"""What coding agents get: playbooks whose commands run, and resources and prompts of /mcp."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

import harness
import pytest
import yaml
from harness import Cli, Target
from serving import Served

SKILLS = sorted((harness.ROOT / "src/skills").glob("*/SKILL.md"))
NAMES = [path.parent.name for path in SKILLS]
CLIENT = harness.ROOT / "build/clients-venv/bin/python"


def commands_of(path: Path) -> list[str]:
    blocks = re.findall(r"^ *```bash\n(.*?)^ *```", path.read_text(), re.M | re.S)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


@pytest.mark.parametrize("path", SKILLS, ids=NAMES)
def test_every_command_of_a_playbook_runs(probing: Cli, busy: Target, tmp_path: Path, path: Path) -> None:
    commands = commands_of(path)
    assert len(commands) >= 4
    for command in commands:
        program, *words = shlex.split(command.replace("PID", str(busy.pid)))
        assert program == "probing", command
        words = [str(tmp_path / word) if word.endswith(".svg") else word for word in words]
        answer = probing(*words, timeout=60)
        # 1 is an answer, too: something was found. 2 is a mistake in the command.
        assert answer.code in (0, 1) and "Traceback" not in answer.stderr, f"{command}\n{answer}"
    probing("config", "probing.stalls.limit=0").expect(0)
    probing("-t", busy.pid, "config", "probing.torch.profiling=off").expect(0)


@pytest.mark.parametrize("path", SKILLS, ids=NAMES)
def test_commands_within_a_sentence_exist(probing: Cli, path: Path) -> None:
    """Also those that would change something: each command and option is in --help."""
    for text in re.findall(r"`(probing [^`]+)`", path.read_text()):
        words = shlex.split(text)[1:]
        if words[0] == "-t":
            words = words[2:]
        if "." in words[0]:
            continue  # probing.log
        told = probing(words[0], "--help").expect(0).stdout
        for option in (word for word in words[1:] if word.startswith("--")):
            assert option in told, text


@pytest.mark.parametrize("path", SKILLS, ids=NAMES)
def test_a_playbook_is_written_as_agents_read_it(path: Path) -> None:
    _, header, body = path.read_text().split("---\n", 2)
    fields = yaml.safe_load(header)
    assert set(fields) == {"name", "description"} and fields["name"] == path.parent.name
    assert re.fullmatch(r"[a-z0-9-]{1,64}", fields["name"]) and len(fields["description"]) <= 1024
    assert "Use when" in fields["description"] and body.strip().startswith("# ")


def test_skills_are_listed(probing: Cli) -> None:
    listed = probing("skills", "--json").expect(0).json
    assert sorted(each["name"] for each in listed) == NAMES
    assert all("Use when" in each["description"] for each in listed)
    text = probing("skills").expect(0).stdout
    assert all(name in text for name in NAMES)
    assert "install" in probing("skills", "instal").expect(2).stderr
    probing("skills", "--force").expect(2)


def install(probing: Cli, folder: Path, *words: str) -> dict[str, str]:
    answer = probing("skills", "install", "--dir", folder, "--json", *words)
    return {each["name"]: each["state"] for each in answer.json}


def test_skills_are_installed_and_kept_when_somebody_has_changed_them(probing: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "deep/skills"
    assert install(probing, folder) == dict.fromkeys(NAMES, "written")
    for path in SKILLS:
        installed = (folder / path.parent.name / "SKILL.md").read_text()
        assert installed.startswith(path.read_text()), "whole, the front matter first"
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("SKILL.md")}
    assert install(probing, folder) == dict.fromkeys(NAMES, "up to date")
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("SKILL.md")}, (
        "nothing was written"
    )
    mine = folder / NAMES[0] / "SKILL.md"
    mine.write_text(mine.read_text().replace("Do not", "Do"))
    changed = mine.read_text() + "a line of my own\n"
    mine.write_text(changed)
    refused = probing("skills", "install", "--dir", folder).expect(1)
    assert str(mine) in refused.stderr and "--force" in refused.stderr and mine.read_text() == changed
    assert install(probing, folder)[NAMES[0]] == "kept: it was changed"
    # One that an older version wrote is replaced: it is ours, and not changed.
    old = "---\nname: x\ndescription: y\n---\n\nolder\n"
    other = folder / NAMES[1] / "SKILL.md"
    other.write_text(f"{old}\n<!-- written by `probing skills install`: {fnv(old)} -->\n")
    assert install(probing, folder)[NAMES[1]] == "updated"
    assert install(probing, folder, "--force")[NAMES[0]] == "updated" or mine.read_text() != changed
    assert mine.read_text().startswith(SKILLS[0].read_text())
    mine.unlink()
    mine.symlink_to(tmp_path / "elsewhere")
    assert install(probing, folder)[NAMES[0]] == "kept: it was changed"
    assert not (tmp_path / "elsewhere").exists()
    assert not [path for path in folder.rglob("*") if path.name.endswith("-new")]


def fnv(text: str) -> str:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def test_agents_md_gets_a_section_and_keeps_the_rest(probing: Cli, tmp_path: Path) -> None:
    agents = tmp_path / "AGENTS.md"
    agents.write_text("# My project\n\nUse tabs.")
    words = ("skills", "install", "--dir", tmp_path / "skills", "--agents", agents)
    probing(*words).expect(0)
    once = agents.read_text()
    assert once.startswith("# My project\n\nUse tabs.\n\n<!-- probing skills: begin -->")
    assert all(f"{tmp_path}/skills/{name}/SKILL.md" in once for name in NAMES)
    agents.write_text(once + "\nMore of mine.\n")
    probing(*words).expect(0)
    assert agents.read_text() == once + "\nMore of mine.\n", "it is there once"


def ask(served: Served, method: str, **parameters: object) -> dict:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
    return served.json("POST", "/mcp", body, Accept="application/json, text/event-stream")


def test_agents_read_tables_and_guides(served: Served) -> None:
    listed = {each["uri"]: each for each in ask(served, "resources/list")["result"]["resources"]}
    assert listed["probing://guides/hang"]["description"] == "Why does my training job hang?"
    assert {"probing://tables", "probing://cookbook", "probing://tables/python.stacks"} <= set(listed)
    for uri in ("probing://tables", "probing://cookbook", "probing://tables/python.stalls"):
        [content] = ask(served, "resources/read", uri=uri)["result"]["contents"]
        assert content["uri"] == uri and content["mimeType"] == "text/markdown" and len(content["text"]) > 200
    assert (
        "lineno"
        in ask(served, "resources/read", uri="probing://tables/python.stalls")["result"]["contents"][0][
            "text"
        ]
    )
    guide = ask(served, "resources/read", uri="probing://guides/hang")["result"]["contents"][0]["text"]
    assert guide == (harness.ROOT / "docs/guides/hang.md").read_text()
    for uri in (
        "probing://tables/no.such",
        "probing://guides/../../etc/passwd",
        "file:///etc/passwd",
        "",
        "probing://",
    ):
        assert ask(served, "resources/read", uri=uri)["error"]["code"] == -32002, uri
    assert ask(served, "resources/read", uri=7)["error"]["code"] == -32602


def test_agents_get_prompts(served: Served) -> None:
    listed = ask(served, "prompts/list")["result"]["prompts"]
    assert [each["name"] for each in listed] == [
        "why_does_it_hang",
        "why_is_it_slow",
        "what_leaks",
        "where_is_the_nan",
    ]
    prompt = ask(served, "prompts/get", name="why_does_it_hang", arguments={"target": "4711"})["result"]
    text = prompt["messages"][0]["content"]["text"]
    assert "It is process 4711." in text and "`diagnose`" in text and "description:" not in text
    assert ask(served, "prompts/get", name="no_such")["error"]["code"] == -32602


@pytest.mark.skipif(not CLIENT.exists(), reason="no clients here: tools/install_deps.sh clients")
@pytest.mark.parametrize("how", ["http", "stdio"])
def test_the_library_of_the_protocol_reads_them_all(served: Served, how: str) -> None:
    script = Path(__file__).with_name("agent_reader.py")
    where = [f"http://{served.address}/mcp"]
    if how == "stdio":
        where = [*served.user.prefix, str(served.user.bin / "probing"), "mcp"]
    done = subprocess.run([str(CLIENT), str(script), *where], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers["templates"] == ["probing://tables/{table}"]
    assert "probing://guides/nan" in answers["resources"] and len(answers["resources"]) > 40
    assert (
        "not finite" in answers["read"]["probing://guides/nan"]
        or "NaN" in answers["read"]["probing://guides/nan"]
    )
    assert "has_gil" in answers["read"]["probing://tables/python.stacks"]
    assert len(answers["prompts"]) == 4 and all("`diagnose`" in text for text in answers["prompts"].values())
