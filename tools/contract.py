#!/usr/bin/env python3
"""Types of the web page from the HTTP contract, src/daemon/openapi.json: web/src/types/contract.ts.

`python tools/contract.py` writes it, `--check` says whether it is old. A schema with a `title` is a type of
that name.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "src/daemon/openapi.json"
MADE = "// Made by tools/contract.py from src/daemon/openapi.json: change that."
Schema = dict[str, Any]


def camel(words: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", words) if part)


def operations(document: Schema) -> list[tuple[str, str, Schema]]:
    """(method, path, operation) of all routes."""
    paths = document["paths"].items()
    return [(method.upper(), path, what) for path, ways in paths for method, what in ways.items()]


def name_of(method: str, path: str) -> str:
    short = path.removeprefix("/api/v1").removesuffix(".json")
    return method.capitalize() + camel(short)


def answer_of(what: Schema) -> Schema:
    content = what["responses"].get("200", {}).get("content", {})
    schema: Schema = content.get("application/json", {}).get("schema", {})
    return schema


class Types:
    """Those that others are made of come first."""

    def __init__(self) -> None:
        self.structs: dict[str, Schema] = {}

    def add(self, name: str, schema: Schema) -> str:
        name = schema.get("title", name)
        for field, inner in schema.get("properties", {}).items():
            self.named(name + camel(field), inner)
        assert self.structs.get(name, schema) == schema, f"two schemas are called {name}"
        self.structs[name] = schema
        return name

    def named(self, name: str, schema: Schema) -> None:
        if schema.get("type") == "array":
            self.named(name, schema.get("items", {}))
        elif "properties" in schema:
            self.add(name, schema)

    def typescript(self, name: str, schema: Schema) -> str:
        kind = schema.get("type")
        if kind == "array":
            inner = self.typescript(name, schema.get("items", {}))
            return f"({inner})[]" if " " in inner else inner + "[]"
        if "properties" in schema:
            return str(schema.get("title", name))
        if "enum" in schema:
            return " | ".join(json.dumps(each) for each in schema["enum"])
        return {"integer": "number", "number": "number", "boolean": "boolean", "string": "string"}.get(
            str(kind), "object" if kind == "object" else "unknown"
        )


def page_types(document: Schema) -> str:
    types = Types()
    answers: dict[str, list[str]] = {"GET": [], "POST": []}
    for method, path, what in operations(document):
        answer = answer_of(what)
        if answer.get("properties"):
            name = types.add(name_of(method, path) + "Answer", answer)
            answers[method].append(f"  {path.removeprefix('/api/v1/')}: {name};")
    lines = [MADE, "// What comes over the HTTP API.", ""]
    for name, schema in types.structs.items():
        lines.append(f"export interface {name} {{")
        for field, inner in schema["properties"].items():
            mark = "" if field in schema.get("required", []) else "?"
            about = f" // {inner['description']}" if "description" in inner else ""
            lines.append(f"  {field}{mark}: {types.typescript(name + camel(field), inner)};{about}")
        lines += ["}", ""]
    for method, fields in answers.items():
        lines += [f"export interface {method.capitalize()}Contract {{", *fields, "}", ""]
    return "\n".join(lines).rstrip("\n") + "\n"


PAGE = ROOT / "web/src/types/contract.ts"


def made() -> str:
    return page_types(json.loads(DOCUMENT.read_text(encoding="utf-8")))


def main() -> int:
    is_old = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made()
    if "--check" in sys.argv:
        print("run `python tools/contract.py`" if is_old else "as the contract says")
        return int(is_old)
    PAGE.write_text(made(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
