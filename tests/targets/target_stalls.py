"""A program that stalls now and then, and says when: target_stalls.py KIND STALLS TRUTH [SHORTEST LONGEST]

KIND is loop (asyncio), uvloop, aiohttp, gil, spans (a threaded server), steps or torch. STALLS 0 is healthy
running until it is killed. The truth is a list of {at, seconds, func, line}, written at the end. Python 3.6
syntax.
"""

import ctypes
import itertools
import json
import os
import random
import sys
import threading
import time

KIND, COUNT, TRUTH = sys.argv[1], int(sys.argv[2]), sys.argv[3]
SHORTEST, LONGEST = (float(a) for a in (sys.argv[4:6] or ("0.05", "0.2")))
truth = []
dice = random.Random(int(os.environ.get("STALL_SEED", "7")))
library = ctypes.PyDLL(None)  # its functions keep the GIL


def line_of(function, offset):
    return function.__code__.co_firstlineno + offset


def sleeps(seconds):
    time.sleep(seconds)


def spins(end):
    return all(time.perf_counter() < end for _ in itertools.repeat(0))


def small(number):
    return number + 1


def calls(end):
    return all(small(1) and time.perf_counter() < end for _ in itertools.repeat(0))


def keeps(seconds):
    library.usleep(int(seconds * 1e6))


def waited_for_cpu():
    """This thread, so far, in seconds; 0 where the kernel does not tell."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def stall(seconds=None, ways=(sleeps, spins, calls)):
    """One stall; notes what it was."""
    seconds = dice.uniform(SHORTEST, LONGEST) if seconds is None else seconds
    way = ways[dice.randrange(len(ways))]
    waited, at, begun = waited_for_cpu(), time.time(), time.perf_counter()
    way(seconds if way in (sleeps, keeps) else begun + seconds)
    truth.append(
        {
            "at": at,
            "seconds": time.perf_counter() - begun,
            "func": way.__name__,
            "line": line_of(way, 1),
            "waited": waited_for_cpu() - waited,
        }
    )


class Steps(object):
    """How long the steps of training took; a stall knows the one that it was in, and what was usual."""

    def __init__(self):
        self.began, self.lengths, self.known = time.perf_counter(), [], 0

    def next(self):
        now = time.perf_counter()
        for one in truth[self.known :]:
            recent = sorted(self.lengths[-200:])
            one.update(step=now - self.began, usual=recent[len(recent) // 2])
        self.known = len(truth)
        self.lengths.append(now - self.began)
        self.began = now


def finish():
    with open(TRUTH + ".part", "w") as file:
        json.dump(truth, file)
    os.rename(TRUTH + ".part", TRUTH)


def say_ready():
    sys.stdout.write("ready\n")
    sys.stdout.flush()


def is_over():
    return bool(COUNT) and len(truth) >= COUNT


def is_awaited():
    """Nobody looks yet: on a busy machine entering a process may take seconds."""
    with open("/proc/self/maps") as maps:
        return bool(COUNT) and "libprobing" not in maps.read()


def pause():
    return dice.uniform(0.08, 0.2)


async def handle():
    stall()


def run_loop():
    import asyncio

    async def tick():
        while True:
            await asyncio.sleep(0.002)

    async def main():
        ticker = asyncio.ensure_future(tick())
        say_ready()
        while is_awaited():
            await asyncio.sleep(0.05)
        await asyncio.sleep(1)
        while not is_over():
            await asyncio.sleep(pause())
            if COUNT:
                await handle()
        finish()
        await asyncio.sleep(3600)
        ticker.cancel()

    if KIND == "uvloop":
        import uvloop

        loop = uvloop.new_event_loop()
    else:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
    loop.run_until_complete(main())


def run_aiohttp():
    import urllib.request

    from aiohttp import web

    async def fast(request):
        return web.Response(text="ok")

    async def slow(request):
        stall()
        return web.Response(text="slow")

    def ask(port):
        def get(path):
            urllib.request.urlopen("http://127.0.0.1:%d/%s" % (port, path)).read()

        get("fast")
        say_ready()
        time.sleep(1)
        while not is_over():
            for _ in range(dice.randrange(5, 20)):
                get("fast")
                time.sleep(0.005)
            if COUNT:
                get("slow")
        finish()

    async def started(app):
        import socket

        def later():
            with socket.socket() as s:
                while s.connect_ex(("127.0.0.1", PORT)):
                    time.sleep(0.01)
            ask(PORT)

        threading.Thread(target=later, daemon=True).start()

    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        PORT = s.getsockname()[1]
    app = web.Application()
    app.add_routes([web.get("/fast", fast), web.get("/slow", slow)])
    app.on_startup.append(started)
    web.run_app(app, host="127.0.0.1", port=PORT, print=None, handle_signals=False)


def run_gil():
    """Another thread wants to run all the time."""

    def other():
        while True:
            sum(range(1000))
            time.sleep(0.001)

    threading.Thread(target=other, daemon=True, name="other").start()
    say_ready()
    while is_awaited():
        time.sleep(0.05)
    time.sleep(1)
    while not is_over():
        time.sleep(pause())
        if COUNT:
            stall(ways=(keeps,))
    finish()
    time.sleep(3600)


def run_spans():
    """Requests of a threaded server, each in a thread of its own, with a limit."""
    import probing

    def request(slow):
        with probing.span("request", limit=0.045):
            sum(range(1000))
            if slow:
                stall()

    probing.load()
    say_ready()
    time.sleep(1)
    while not is_over():
        for _ in range(dice.randrange(3, 10)):
            thread = threading.Thread(target=request, args=(False,))
            thread.start()
            time.sleep(0.005)
            thread.join()
        if COUNT:
            thread = threading.Thread(target=request, args=(True,))
            thread.start()
            thread.join()
    finish()
    time.sleep(3600)


def forward():
    time.sleep(0.004)


def run_steps():
    import probing

    probing.load()
    say_ready()
    number, steps = 0, Steps()
    while not is_over():
        number += 1
        probing.step(number)
        steps.next()
        forward()
        spins(time.perf_counter() + 0.004)
        if COUNT and number > 100 and number % 15 == 0:
            stall()
    probing.step(number + 1)
    steps.next()
    finish()
    time.sleep(3600)


def run_torch():
    import torch

    torch.set_num_threads(1)
    import probing

    probing.load()
    probing.enable_torch_profiling()
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    say_ready()
    number, steps = 0, Steps()
    while not is_over():
        number += 1
        time.sleep(0.004)
        loss = model(torch.ones(32, 64)).pow(2).mean()
        loss.backward()
        if COUNT and number > 100 and number % 15 == 0:
            stall()
        optimizer.step()
        steps.next()
        optimizer.zero_grad()
    finish()
    while True:
        time.sleep(0.1)


RUN = {"aiohttp": run_aiohttp, "gil": run_gil, "spans": run_spans, "steps": run_steps, "torch": run_torch}
if __name__ == "__main__":
    RUN.get(KIND, run_loop)()
