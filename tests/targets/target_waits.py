"""Tasks of asyncio that wait for each other in all the ways they can.

    python target_waits.py TRUTH

Writes to the file TRUTH, as JSON, the pid, the name of every task by its id, and for each the names of those
that wait for it; then waits, without running the loop any more.
"""

import asyncio
import json
import os
import sys

gate = os.pipe()  # nothing ever comes through it
tasks = {}
awaited_by = {}


def start(name, coroutine, *, waits_for=()):
    task = asyncio.get_event_loop().create_task(coroutine)
    tasks[name] = task
    for other in waits_for:
        awaited_by.setdefault(other, []).append(name)
    return task


async def leaf():
    await asyncio.get_event_loop().create_future()


async def on(task):
    await task


async def gathers(*several):
    await asyncio.gather(*several)


async def waits(*several):
    await asyncio.wait(several)


async def has_a_limit(task):
    await asyncio.wait_for(task, 1000)


async def shields(task):
    await asyncio.shield(task)


async def on_another(name):
    await asyncio.sleep(0)
    await tasks[name]


async def has_a_group():
    async with asyncio.TaskGroup() as group:
        tasks["in a group"] = group.create_task(leaf())


async def main():
    start("direct", on(start("of direct", leaf())), waits_for=["of direct"])
    start("gather", gathers(start("g1", leaf()), start("g2", leaf())), waits_for=["g1", "g2"])
    start("wait", waits(start("w1", leaf()), start("w2", leaf())), waits_for=["w1", "w2"])
    start("limit", has_a_limit(start("of limit", leaf())), waits_for=["of limit"])
    start("shield", shields(start("of shield", leaf())), waits_for=["of shield"])
    inner = asyncio.shield(start("deep", leaf()))
    start("gathers a shield", gathers(inner), waits_for=["deep"])
    shared = start("shared", leaf())
    start("first", on(shared), waits_for=["shared"])
    start("second", gathers(shared), waits_for=["shared"])
    start("circle a", on_another("circle b"), waits_for=["circle b"])
    start("circle b", on_another("circle a"), waits_for=["circle a"])
    if hasattr(asyncio, "TaskGroup"):
        start("group", has_a_group(), waits_for=["in a group"])
    for _ in range(5):
        await asyncio.sleep(0)
    truth = {"pid": os.getpid(), "tasks": {hex(id(task)): name for name, task in tasks.items()}}
    truth["awaited_by"] = {name: sorted(awaited_by.get(name, [])) for name in tasks}
    with open(sys.argv[1], "w") as file:
        json.dump(truth, file)
    os.write(1, b"ready\n")
    os.read(gate[0], 1)


loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
loop.run_until_complete(main())
