"""Programs that others wrote talk to probingd: an MCP client, an OpenAPI tester, promtool."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import harness
import pytest
from serving import Served
from users import User, free_port

CLIENTS = harness.ROOT / "build/clients-venv/bin"
needs_clients = pytest.mark.skipif(
    not (CLIENTS / "schemathesis").exists(), reason="no clients here: tools/install_deps.sh clients"
)

# What changes the machine, goes on for ever, or wants a WebSocket.
LEFT_OUT = "/api/v1/(listen|token|shutdown|eject|inject|events|repl)$"


def ask_as_agent(port: int, pid: int) -> dict[str, str]:
    script = Path(__file__).with_name("agent_client.py")
    command = [str(CLIENTS / "python"), str(script), f"http://127.0.0.1:{port}/mcp", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_clients
def test_an_agent_looks_into_the_job(served: Served) -> None:
    answers = ask_as_agent(served.port, served.pid)
    assert "eval" not in answers["tools"].split(), "it may only look"
    assert "42" in answers["query"]
    assert "wait_in_thread" in answers["backtrace"]
    assert "inner" in answers["flamegraph"]
    assert "python.torch_steps" in answers["tables"]
    assert str(served.pid) in answers["targets"]
    assert answers["diagnose"]
    assert "syntax error" in answers["wrong"]


@needs_clients
def test_an_agent_evaluates_when_it_is_granted(user: User) -> None:
    target, port = user.probed_target(), free_port()
    user("config", "probing.mcp.eval=true").expect(0)
    user("serve", "--listen", port, "--background").expect(0)
    assert "42" in ask_as_agent(port, target.pid)["eval"]


@needs_clients
def test_the_server_does_what_its_openapi_document_says(served: Served, tmp_path: Path) -> None:
    # Rejections of wrong values are as good as answers: what counts is that all of it is described.
    checks = "status_code_conformance,content_type_conformance,response_schema_conformance"
    told = tmp_path / "told.har"
    command = [str(CLIENTS / "schemathesis"), "run", f"http://{served.address}/api/v1/openapi.json"]
    command += ["--checks", checks, "--phases", "coverage", "--exclude-path-regex", LEFT_OUT]
    command += ["--workers", "1", "--max-time", "60", "--suppress-health-check", "all"]
    command += ["--request-timeout", "20", "--report", "har", "--report-har-path", str(told)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "/api/v1/query" in told.read_text() and "this is a bug of probingd" not in told.read_text()


def test_promtool_finds_nothing_wrong_with_the_metrics(served: Served) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool: tools/install_deps.sh servers")
    status, metrics, _ = served.http("GET", "/metrics")
    assert status == 200 and f'pid="{served.pid}"'.encode() in metrics
    checked = subprocess.run([promtool, "check", "metrics"], input=metrics, capture_output=True)
    assert checked.returncode == 0 and not checked.stderr, checked.stdout + checked.stderr
