"""An AI agent's side, by the MCP library of PyPI: reads resources and prompts, and prints them as JSON.

agent_reader.py URL | COMMAND…      run by build/clients-venv/bin/python
"""

from __future__ import annotations

import asyncio
import json
import sys

from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client


async def read_all(where: list[str]) -> dict[str, object]:
    if where[0].startswith("http"):
        transport = streamable_http_client(where[0])
    else:
        transport = stdio_client(StdioServerParameters(command=where[0], args=where[1:]))
    answers: dict[str, object] = {}
    async with transport as streams, ClientSession(streams[0], streams[1]) as session:
        await session.initialize()
        resources = (await session.list_resources()).resources
        answers["resources"] = [str(each.uri) for each in resources]
        answers["templates"] = [
            each.uri_template for each in (await session.list_resource_templates()).resource_templates
        ]
        read = {}
        for uri in ("probing://guides/nan", "probing://tables/python.stacks"):
            read[uri] = (await session.read_resource(uri)).contents[0].text
        answers["read"] = read
        prompts = {}
        for prompt in (await session.list_prompts()).prompts:
            got = await session.get_prompt(prompt.name, {"target": "4711"})
            prompts[prompt.name] = got.messages[0].content.text
        answers["prompts"] = prompts
    return answers


print(json.dumps(asyncio.run(read_all(sys.argv[1:]))))
