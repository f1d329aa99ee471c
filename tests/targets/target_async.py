"""Three kinds of asyncio tasks that share one thread, and what each of them takes of it.

    target_async.py [uvloop]

`serve` waits for two tasks: "heavy work" works for 3 of 4 units of time, an unnamed one for 1. Another one
only waits. The counters are nanoseconds on a CPU. Python 3.6 syntax.
"""

import asyncio
import sys
import time

from report import Report

UNIT = 0.002
now = time.perf_counter
report = Report("heavy", "light")


def work(seconds, counter):
    start = now()
    end = start + seconds
    while now() < end:
        pass
    report[counter] += int((now() - start) * 1e9)


async def heavy():
    while True:
        work(3 * UNIT, "heavy")
        await asyncio.sleep(0)


async def light():
    while True:
        work(UNIT, "light")
        await asyncio.sleep(0)


async def sleeper():
    await asyncio.sleep(1000)


async def serve(loop):
    if sys.version_info >= (3, 8):
        first = loop.create_task(heavy(), name="heavy work")
    else:
        first = loop.create_task(heavy())
    await asyncio.gather(first, loop.create_task(light()), loop.create_task(sleeper()))


if sys.argv[1:] == ["uvloop"]:
    import uvloop

    loop = uvloop.new_event_loop()
else:
    loop = asyncio.new_event_loop()
loop.call_later(0.1, report.ready)
asyncio.set_event_loop(loop)
loop.run_until_complete(serve(loop))
