"""A job with a table of its own, `python.batch`.

PYTHONPATH=python PROBING_LIBRARY=build/release/bin/libprobing.so python examples/plugin_python/train.py
probing query "SELECT shard, avg(wait_ms), count(*) FROM python.batch GROUP BY shard"
"""

import random
import sys
import time

import probing


@probing.table
class Batch:
    number: int
    wait_ms: float
    shard: str = None  # NULL in SQL


def load(number):
    started = time.perf_counter()
    time.sleep(random.uniform(0.001, 0.003))
    wait_ms = (time.perf_counter() - started) * 1000
    Batch(number, wait_ms, "shard-%d" % (number % 3)).save()


if __name__ == "__main__":
    for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000):
        load(number)
        probing.log(step=number, loss=1 / (number + 1))
    print("done", flush=True)
    if len(sys.argv) > 1:
        sys.stdin.read()
