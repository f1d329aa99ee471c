"""Pages of the reference that are made from the code: commands, settings, the HTTP API."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import help_text

ROOT = Path(__file__).resolve().parent.parent
HOLDERS = {"kProbe": "the target", "kDaemonPerTarget": "probingd, for each target", "kDaemon": "probingd"}
SETTING = re.compile(
    r'Setting\{\s*"(?P<name>[\w.]+)",\s*(?P<holder>\w+),\s*(?P<type>\w+),\s*"(?P<default>[^"]*)",'
    r'\s*[^,]+,\s*[^,]+,\s*"(?P<choices>[^"]*)",\s*(?P<text>(?:"(?:[^"\\]|\\.)*"\s*)+)\}'
)


@dataclass(frozen=True)
class Setting:
    name: str
    holder: str
    default: str
    choices: str
    text: str


def settings() -> list[Setting]:
    """As src/wire/settings.cc declares them."""
    source = (ROOT / "src/wire/settings.cc").read_text()
    found = []
    for match in SETTING.finditer(source):
        text = "".join(json.loads(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', match["text"]))
        holder = HOLDERS[match["holder"]]
        found.append(Setting(match["name"], holder, match["default"], match["choices"], text))
    return found


def cell(text: str) -> str:
    """For a table: a bar would end the column."""
    return text.replace("|", "\\|")


def table(headings: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return [*lines, *("| " + " | ".join(map(cell, row)) + " |" for row in rows), ""]


def commands_page(helps: list[help_text.Help]) -> str:
    lines = [
        "# Commands",
        "",
        "What `--help` says, of all of them. Exit codes: 0 done, 1 the target failed, 2 wrong",
    ]
    lines += [
        "usage, 3 not permitted, 4 no such target, 5 timed out, 6 some ranks did not answer. Results are on",
        "stdout, everything else on stderr.",
        "",
    ]
    for about in helps:
        lines += [f"## {about.name}", "", about.summary, "", f"    {about.usage}", ""]
        for section, rows in about.sections.items():
            heading = {"Subcommands": "command", "Positionals": "argument", "Options": "option"}[section]
            linked = [[f"`{term}`", text] for term, text in rows]
            if section == "Subcommands":
                linked = [[f"[{t}](#probing-{t.split(',')[0]})", text] for t, text in rows]
            lines += table([heading, ""], linked)
        if about.examples:
            lines += ["For example:", "", *(f"    {example}" for example in about.examples), ""]
        lines += [*about.remarks, ""] if about.remarks else []
    return "\n".join(lines)


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "`probing -t PID config NAME=VALUE` changes one of a target, `probing config NAME=VALUE` one of",
    ]
    lines += ["probingd. As a variable of the environment a setting is written in capitals with `_`:"]
    lines += ["`PROBING_TORCH_PROFILING=on`.", ""]
    rows = []
    for each in settings():
        default = f"`{each.default}`" if each.default else ""
        choices = f" ({each.choices.replace('|', ', ')})" if each.choices else ""
        rows.append([f"`{each.name}`", default, each.holder, each.text + choices])
    return "\n".join([*lines, *table(["name", "default", "belongs to", "what it does"], rows)])


def api_page() -> str:
    document = json.loads((ROOT / "src/daemon/openapi.json").read_text())
    lines = [
        "# HTTP API",
        "",
        document["info"]["description"],
        "",
        "`GET /api/v1/openapi.json` is this as an OpenAPI document.",
    ]
    lines += ["How to reach it, and the plain text on the same port: [HTTP and text](http.md).", ""]
    for path, methods in document["paths"].items():
        for method, what in methods.items():
            lines += [
                f"## {method.upper()} {path}",
                "",
                f"{what['summary']}. {what.get('description', '')}".strip(),
                "",
            ]
            names = [
                [f"`{p['name']}`", p.get("description", "")]
                for p in what.get("parameters", [])
                if "name" in p
            ]
            body = (
                what.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            )
            for name, schema in body.get("properties", {}).items():
                required = " (required)" if name in body.get("required", []) else ""
                names.append([f"`{name}`", schema.get("description", schema.get("type", "")) + required])
            if names:
                lines += table(["argument", ""], names)
    return "\n".join(lines)
