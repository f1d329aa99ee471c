"""The HTTP contract is told by src/wire, by openapi.json and by the handlers: they must agree."""

from __future__ import annotations

import json
import re
from typing import Any

import contract
import harness

Route = tuple[str, str]  # method and path

DAEMON = harness.ROOT / "src/daemon"
CONTRACT = harness.ROOT / "src/wire/contract.h"


def route_names() -> dict[str, str]:
    """kEvalRoute → /api/v1/eval, from every header of src/wire."""
    headers = "".join(path.read_text() for path in (harness.ROOT / "src/wire").glob("*.h"))
    return dict(re.findall(r'(k\w+Route) = "([^"]+)"', headers))


def registered() -> dict[Route, str]:
    """What handlers are registered for, and the right that each takes."""
    found: dict[Route, str] = {}
    names = route_names()
    for path in DAEMON.glob("*.cc"):
        if path.stem.endswith(("_test", "_fuzz")):
            continue
        for how, rest in re.findall(r"router\.(Add\w*)\(([^;]*?),\s*(?:\[|\w+\);)", path.read_text()):
            name = re.search(r"wire::(k\w+Route)", rest)
            method = re.search(r'"(\w+)"', rest)
            assert name and how in ("Add", "AddContent", "AddEvents", "AddSocket"), rest
            found[method[1] if method else "GET", names[name[1]]] = re.findall(r"\bk\w+", rest)[-1]
    return found


def told_in_contract() -> set[Route]:
    text = CONTRACT.read_text()
    told = {
        (method, f"/api/v1/{path}") for method, path in re.findall(r"^//   (GET|POST) +([\w/.]+)", text, re.M)
    }
    return told | {(method, path) for method, path in re.findall(r"\b(GET|POST) (/\w+)", text)}


def told_in_openapi() -> dict[Route, dict[str, Any]]:
    paths = json.loads((DAEMON / "openapi.json").read_text())["paths"]
    return {
        (method.upper(), path): operation
        for path, ways in paths.items()
        for method, operation in ways.items()
    }


def test_every_route_has_a_handler_and_is_told_in_the_contract() -> None:
    assert len(registered()) > 25
    assert set(registered()) == told_in_contract()
    assert {path for _, path in registered()} == set(route_names().values())


def test_openapi_tells_every_route_but_those_of_the_own_command_line() -> None:
    assert set(told_in_openapi()) == {route for route, right in registered().items() if right != "kOwn"}


def test_what_eval_takes_is_told_in_contract_and_openapi() -> None:
    handler = (DAEMON / "api_eval.cc").read_text()
    listed = re.search(r"kEvalFields\{(.*?)\}", handler, re.DOTALL)
    assert listed
    taken = {"target", *re.findall(r'"(\w+)"', listed[1]), *re.findall(r'body\.find\("(\w+)"\)', handler)}
    schema = told_in_openapi()["POST", "/api/v1/eval"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["properties"]) == taken
    told = re.search(r"POST eval \{(.*?)\}", CONTRACT.read_text(), re.DOTALL)
    assert told and set(re.findall(r"\w+", told[1].replace("//", ""))) == taken


def test_what_eval_answers_is_told_in_openapi_and_known_to_the_web_page() -> None:
    answer = told_in_openapi()["POST", "/api/v1/eval"]["responses"]["200"]
    told = answer["content"]["application/json"]["schema"]["properties"]
    handler = (DAEMON / "api_eval.cc").read_text()
    made = set(re.findall(r'object\["(\w+)"\] =', handler))
    probe = (harness.ROOT / "src/probe/evaluations.cc").read_text()
    of_others = {
        "partial",
        "rows",
        "running_tid",
        "running_ms",
    }  # an answer in parts, rows of a table; `running`
    made |= set(re.findall(r'Set\("(\w+)"', probe)) - of_others
    assert made == set(told)
    assert told["gil_holder"]["properties"]["stack"] == {"type": "array", "items": {"type": "string"}}
    page = (harness.ROOT / "web/src/types/contract.ts").read_text()
    assert "gil_holder?: GilHolder;" in page and "stack: string[];" in page


def test_types_of_the_web_page_are_made_from_the_contract() -> None:
    assert contract.PAGE.read_text() == contract.made(), "run tools/contract.py"
