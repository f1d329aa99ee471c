"""Two threads, each with an event loop of uvloop and two tasks that wait."""

import asyncio
import os
import threading

import uvloop


async def wait_for_ever():
    await asyncio.get_running_loop().create_future()


async def main(name):
    tasks = [asyncio.get_running_loop().create_task(wait_for_ever(), name=name + text) for text in ("1", "2")]
    asyncio.get_running_loop().call_later(0.05, ready.release)
    await asyncio.gather(*tasks)


def run(name):
    uvloop.new_event_loop().run_until_complete(main(name))


def report():
    for _ in range(2):
        ready.acquire()
    os.write(1, b"ready\n")


ready = threading.Semaphore(0)
if __name__ == "__main__":
    threading.Thread(target=report, daemon=True).start()
    threading.Thread(target=run, args=("beside",), daemon=True).start()
    run("main")
