"""Tasks of asyncio that stand still in all the ways they can, and what Python says about them.

    python target_tasks.py TRUTH

Writes to the file TRUTH, as JSON, the tasks of two event loops, each with its name, its state and what
awaits what, the last one awaited first; then waits, without running the loops any more.
"""

import asyncio
import gc
import json
import os
import sys
import threading
import types

gate = os.pipe()  # nothing ever comes through it


async def leaf():
    await asyncio.get_event_loop().create_future()


async def middle(number):
    if number:
        await middle(number - 1)
    else:
        await leaf()


async def with_arguments(*values):
    one, two = 1, [value for value in values]
    for value in (one, two):
        await asyncio.sleep(1000, value)


@types.coroutine
def steps():
    for _ in range(10):
        yield


async def uses_a_generator():
    await steps()


class Awaitable:
    def __await__(self):
        return leaf().__await__()


async def awaits_an_object():
    await Awaitable()


class Manager:
    async def __aenter__(self):
        await leaf()

    async def __aexit__(self, *error):
        return None

    async def method(self):
        async with self:
            pass


async def gathers():
    await asyncio.gather(leaf(), leaf())


class Limit:
    """asyncio.timeout, where there is one."""

    async def __aenter__(self):
        if hasattr(asyncio, "timeout"):
            self.timeout = asyncio.timeout(1000)
            await self.timeout.__aenter__()

    async def __aexit__(self, *error):
        return None


async def waits_with_a_limit():
    async with Limit():
        await asyncio.wait_for(leaf(), 1000)


async def gives():
    yield 1
    await middle(1)
    yield 2


async def gives_what_another_one_gives():
    async for value in gives():
        yield value


async def iterates():
    async for _ in gives_what_another_one_gives():
        pass


async def asks_for_the_next():
    values = gives()
    await values.__anext__()
    await (anext(values, None) if sys.version_info >= (3, 10) else values.__anext__())


async def closes():
    async def guarded():
        try:
            yield 1
        finally:
            await leaf()

    values = guarded()
    await values.__anext__()
    await values.aclose()


@types.coroutine
def delegates():
    yield
    yield from leaf().__await__()


async def uses_a_generator_that_delegates():
    await delegates()


async def never_started():
    pass


class OwnTask(asyncio.Task):
    pass


def frame_of(awaited):
    for name in ("cr_frame", "gi_frame", "ag_frame"):
        if getattr(awaited, name, None) is not None:
            return getattr(awaited, name)
    return None


def without_wrappers(awaited):
    """`await` of a coroutine's __await__, `async for` and anext() wrap what they await."""
    wrappers = ("coroutine_wrapper", "async_generator_asend", "async_generator_athrow", "anext_awaitable")
    while type(awaited).__name__ in wrappers:
        kinds = (types.CoroutineType, types.AsyncGeneratorType)
        inside = [
            thing
            for thing in gc.get_referents(awaited)
            if isinstance(thing, kinds) or type(thing).__name__ in wrappers
        ]
        awaited = inside[0]
    return awaited


def chain_of(task):
    """As cr_await, gi_yieldfrom and ag_await say."""
    frames = []
    awaited = task._coro if hasattr(task, "_coro") else task.get_coro()
    while awaited is not None:
        awaited = without_wrappers(awaited)
        frame = frame_of(awaited)
        if frame is None:
            break
        name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
        frames.append([name, frame.f_code.co_filename, frame.f_lineno])
        inner = [getattr(awaited, name, None) for name in ("cr_await", "gi_yieldfrom", "ag_await")]
        awaited = next((one for one in inner if one is not None), None)
    return frames[::-1]


def all_tasks(loop):
    if sys.version_info >= (3, 7):
        return asyncio.all_tasks(loop)
    return asyncio.Task.all_tasks(loop) | asyncio.tasks._PyTask.all_tasks(loop)


def describe(loop):
    current_task = asyncio.Task.current_task if sys.version_info < (3, 7) else asyncio.current_task
    tasks = []
    for task in all_tasks(loop):
        if task.done():
            continue
        name = task.get_name() if hasattr(task, "get_name") else None
        one = {"id": hex(id(task)), "name": name, "state": "running", "frames": []}
        if task is not current_task(loop):
            one["state"] = "waiting" if task._fut_waiter is not None else "ready"
            one["frames"] = chain_of(task)
        tasks.append(one)
    return tasks


async def main(prefix, stand_still):
    loop = asyncio.get_event_loop()
    coroutines = [middle(0), middle(20), with_arguments(1, 2), uses_a_generator(), awaits_an_object()]
    coroutines += [Manager().method(), gathers(), waits_with_a_limit(), iterates(), asks_for_the_next()]
    coroutines += [closes(), uses_a_generator_that_delegates()]
    tasks = [loop.create_task(coroutine) for coroutine in coroutines]
    tasks.append(named(loop.create_task(leaf()), prefix + "größe 📦"))
    tasks.append(named(loop.create_task(leaf()), prefix + "long " * 500))
    tasks.append(named(OwnTask(leaf(), loop=loop), prefix + "of my own class"))
    tasks.append(named(asyncio.tasks._PyTask(middle(3), loop=loop), prefix + "made in Python"))
    for _ in range(5):
        await asyncio.sleep(0)
    tasks.append(named(loop.create_task(never_started()), prefix + "never started"))
    stand_still(loop)


def named(task, name):
    if hasattr(task, "set_name"):
        task.set_name(name)
    return task


def run(coroutine):
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(coroutine)


def stand_still_beside(loop):
    truth["beside"] = describe(loop)
    ready.set()
    os.read(gate[0], 1)


def stand_still_here(loop):
    truth["main"] = describe(loop)
    with open(sys.argv[1], "w") as file:
        json.dump(truth, file)
    os.write(1, b"ready\n")
    os.read(gate[0], 1)


truth = {"pid": os.getpid()}
ready = threading.Event()
if __name__ == "__main__":
    beside = threading.Thread(target=run, args=(main("beside ", stand_still_beside),), daemon=True)
    beside.start()
    ready.wait()
    run(main("main ", stand_still_here))
