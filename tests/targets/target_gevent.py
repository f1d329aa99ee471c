"""A program of gevent: workers that wait for an event, one that sleeps, and the main part that waits."""

import os

import gevent
from gevent.event import Event

never = Event()


def take_from_queue():
    never.wait()


def worker():
    take_from_queue()


def sleeper():
    gevent.sleep(1000)


def serve():
    os.write(1, b"ready\n")
    gevent.joinall(workers)


if __name__ == "__main__":
    workers = [gevent.spawn(worker) for _ in range(3)] + [gevent.spawn(sleeper)]
    gevent.sleep(0)
    serve()
