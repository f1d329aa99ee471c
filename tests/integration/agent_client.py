"""An AI agent's side, by the MCP library of PyPI: asks each tool once, and prints what it was told as JSON.

agent_client.py URL PID      run by build/clients-venv/bin/python
"""

from __future__ import annotations

import asyncio
import json
import sys

from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def ask_as_agent(url: str, pid: int) -> dict[str, str]:
    """What an agent is told: by the name of the tool."""
    answers = {}
    async with streamable_http_client(url) as streams, ClientSession(streams[0], streams[1]) as session:
        hello = await session.initialize()
        answers["server"] = hello.server_info.name
        tools = [tool.name for tool in (await session.list_tools()).tools]
        answers["tools"] = " ".join(tools)
        questions = {
            "query": {"sql": "SELECT 40 + 2 AS answer"},
            "backtrace": {"target": pid},
            "flamegraph": {"target": pid, "seconds": 0.3},
            "tables": {},
            "targets": {},
            "diagnose": {},
            "eval": {"target": pid, "code": "6 * 7"},
        }
        for name, arguments in questions.items():
            if name not in tools:
                continue
            result = await session.call_tool(name, arguments)
            assert not result.is_error, (name, result)
            answers[name] = result.content[0].text
        wrong = await session.call_tool("query", {"sql": "SELEC"})
        assert wrong.is_error
        answers["wrong"] = wrong.content[0].text
    return answers


print(json.dumps(asyncio.run(ask_as_agent(sys.argv[1], int(sys.argv[2])))))
