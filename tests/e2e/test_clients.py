"""Programs that others wrote talk to probingd: an MCP client, an OpenAPI tester, promtool."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

# What changes the machine, goes on for ever, or wants a WebSocket.
LEFT_OUT = "/api/v1/(listen|token|shutdown|eject|inject|events|repl)$"


async def ask_as_agent(url: str, pid: int) -> dict[str, str]:
    """What an agent is told: by the name of the tool."""
    answers = {}
    async with streamable_http_client(url) as streams, ClientSession(streams[0], streams[1]) as session:
        hello = await session.initialize()
        answers["server"] = hello.server_info.name
        answers["tools"] = " ".join(tool.name for tool in (await session.list_tools()).tools)
        questions = {
            "query": {"sql": "SELECT 40 + 2 AS answer"},
            "backtrace": {"target": pid},
            "flamegraph": {"target": pid, "seconds": 0.3},
            "tables": {},
            "targets": {},
        }
        for name, arguments in questions.items():
            result = await session.call_tool(name, arguments)
            assert not result.is_error, result
            answers[name] = result.content[0].text
        wrong = await session.call_tool("query", {"sql": "SELEC"})
        assert wrong.is_error
    return answers


def test_an_agent_looks_into_the_job(site: str, job: int) -> None:
    answers = asyncio.run(ask_as_agent(f"{site}mcp", job))
    assert "eval" not in answers["tools"].split(), "it may only look"
    assert "42" in answers["query"]
    assert "wait_for_a_lock_for_ever" in answers["backtrace"]
    assert "target_job.py" in answers["flamegraph"]
    assert "python.torch_steps" in answers["tables"]
    assert str(job) in answers["targets"]


def test_the_server_does_what_its_openapi_document_says(site: str, job: int, tmp_path: Path) -> None:
    tester = Path(sys.executable).parent / "schemathesis"
    # Rejections of wrong values are as good as answers: what counts is that all of it is described.
    checks = "status_code_conformance,content_type_conformance,response_schema_conformance"
    told = tmp_path / "told.har"
    command = [str(tester), "run", f"{site}api/v1/openapi.json", "--checks", checks, "--phases", "coverage"]
    command += ["--exclude-path-regex", LEFT_OUT, "--workers", "1", "--max-time", "60"]
    command += ["--suppress-health-check", "all", "--request-timeout", "20"]
    command += ["--report", "har", "--report-har-path", str(told)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "/api/v1/query" in told.read_text() and "this is a bug of probingd" not in told.read_text()


def test_promtool_finds_nothing_wrong_with_the_metrics(site: str, job: int) -> None:
    promtool = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool: apt-get install prometheus")
    with urllib.request.urlopen(f"{site}metrics", timeout=20) as response:
        metrics = response.read()
    assert f'pid="{job}"'.encode() in metrics
    checked = subprocess.run([promtool, "check", "metrics"], input=metrics, capture_output=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
