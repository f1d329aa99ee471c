"""Tasks of asyncio that stand still in all the ways they can, and what Python says about them.

    python target_tasks.py TRUTH

Writes to the file TRUTH, as JSON, the tasks of two event loops, each with its name, its state and what
awaits what, the last one awaited first; then waits, without running the loops any more.
"""

import asyncio
import json
import os
import sys
import threading
import types

gate = os.pipe()  # nothing ever comes through it


async def leaf():
    await asyncio.get_running_loop().create_future()


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


async def waits_with_a_limit():
    async with asyncio.timeout(1000):
        await asyncio.wait_for(leaf(), 1000)


async def never_started():
    pass


class OwnTask(asyncio.Task):
    pass


def frame_of(awaited):
    return getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)


def chain_of(task):
    """As cr_await says; a coroutine's __await__ hides it, so those are found by what they refer to."""
    import gc

    frames = []
    awaited = task.get_coro()
    while awaited is not None:
        if type(awaited).__name__ == "coroutine_wrapper":
            [awaited] = [thing for thing in gc.get_referents(awaited) if asyncio.iscoroutine(thing)]
        frame = frame_of(awaited)
        if frame is None:
            break
        frames.append([frame.f_code.co_qualname, frame.f_code.co_filename, frame.f_lineno])
        awaited = awaited.cr_await if hasattr(awaited, "cr_await") else None
    return frames[::-1]


def describe(loop):
    tasks = []
    for task in asyncio.all_tasks(loop):
        if task is asyncio.current_task(loop):
            tasks.append({"name": task.get_name(), "state": "running", "frames": []})
            continue
        state = "waiting" if task._fut_waiter is not None else "ready"
        tasks.append({"name": task.get_name(), "state": state, "frames": chain_of(task)})
    return tasks


async def main(prefix, stand_still):
    loop = asyncio.get_running_loop()
    coroutines = [middle(0), middle(20), with_arguments(1, 2), uses_a_generator(), awaits_an_object()]
    coroutines += [Manager().method(), gathers(), waits_with_a_limit()]
    tasks = [loop.create_task(coroutine) for coroutine in coroutines]
    tasks.append(loop.create_task(leaf(), name=prefix + "größe 📦"))
    tasks.append(OwnTask(leaf(), loop=loop, name=prefix + "of my own class"))
    for _ in range(5):
        await asyncio.sleep(0)
    tasks.append(loop.create_task(never_started(), name=prefix + "never started"))
    stand_still(loop)


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
    beside = threading.Thread(target=asyncio.run, args=(main("beside ", stand_still_beside),), daemon=True)
    beside.start()
    ready.wait()
    asyncio.run(main("main ", stand_still_here))
