"""Programs that wait: target_why.py SCENARIO TRUTH

Several threads and processes wait for each other, and one of them is the cause. Writes to the file TRUTH, as
JSON, who that is: its pid, the function it is in, and how it is to end. Python 3.6 syntax.
"""

import fcntl
import json
import multiprocessing
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from report import Report

SCENARIO, TRUTH = sys.argv[1], sys.argv[2]


def tell(end, func=None, pid=None, reason=""):
    with open(TRUTH + ".new", "w") as file:
        json.dump({"end": end, "func": func, "pid": pid or os.getpid(), "reason": reason}, file)
    os.rename(TRUTH + ".new", TRUTH)


def culprit(held=None):
    tell("sleeps", "culprit", reason=REASON.get(SCENARIO, ""))
    while True:
        time.sleep(3600)


def child(function, *arguments):
    pid = os.fork()
    if pid == 0:
        function(*arguments)
        os._exit(0)
    return pid


def thread(function, *arguments):
    one = threading.Thread(target=function, args=arguments)
    one.daemon = True
    one.start()
    return one


def until(condition):
    while not condition():
        time.sleep(0.005)


REASON = {
    "lock": "in whose `with`",
    "lock_acquire": "Lock at",
    "rlock": "RLock at",
    "condition": "Condition",
    "queue": "Queue",
    "event": "Event",
    "future": "Future",
    "join": "Thread.join",
    "pipe": "pipe",
    "unix": "unix socket",
    "tcp": "TCP 127.0.0.1:",
    "tcp_backlog": "not accepted",
    "mp_queue": "pipe",
    "mp_lock": "multiprocessing lock",
    "flock": "lock on /",
    "lockf": "lock on /",
    "wait": "the end of its child",
    "pool": "process pool",
    "asyncio": "TCP 127.0.0.1:",
}


# ── threads ──────────────────────────────────────────────────────────────────────────────────


def with_lock(lock):
    with lock:
        culprit()


def acquire_lock(lock):
    lock.acquire()
    culprit()


def lock():
    one = threading.Lock()
    thread(with_lock, one)
    until(one.locked)
    with one:
        pass


def lock_acquire():
    one = threading.Lock()
    thread(acquire_lock, one)
    until(one.locked)
    one.acquire()


def rlock():
    one = threading.RLock()
    thread(acquire_lock, one)
    until(lambda: os.path.exists(TRUTH))
    with one:
        pass


def takes(first, second, barrier):
    with first:
        barrier.wait()
        with second:
            pass


def deadlock():
    one, other, barrier = threading.RLock(), threading.RLock(), threading.Barrier(2)
    tell("deadlock", "takes", reason="RLock at")
    thread(takes, other, one, barrier)
    takes(one, other, barrier)


def lock_deadlock():
    one, other, barrier = threading.Lock(), threading.Lock(), threading.Barrier(2)
    tell("deadlock", "takes", reason="in whose `with`")
    thread(takes, other, one, barrier)
    takes(one, other, barrier)


def condition():
    one = threading.Condition()
    thread(culprit, one)
    with one:
        one.wait()


def wait_on_queue():
    one = queue.Queue()
    thread(culprit, one)
    one.get()


def event():
    one = threading.Event()
    thread(culprit, one)
    one.wait()


def future():
    from concurrent.futures import ThreadPoolExecutor

    ThreadPoolExecutor(1).submit(culprit).result()


def join():
    thread(culprit).join()


def hold_the_gil():
    tell("runs", "hold_the_gil", reason="the GIL")
    sum(range(10**13))


def gil():
    thread(hold_the_gil)
    while True:
        time.sleep(0)


# ── processes ────────────────────────────────────────────────────────────────────────────────


def pipe():
    ours, theirs = os.pipe()
    child(lambda: (os.close(ours), culprit()))
    os.close(theirs)
    os.read(ours, 1)


def unix():
    ours, theirs = socket.socketpair()
    child(culprit)
    theirs.close()
    ours.recv(1)


def unix_poll():
    import select

    ours, theirs = socket.socketpair()
    child(culprit)
    theirs.close()
    select.select([ours], [], [])


def serve(listening, handle):
    connection, _ = listening.accept()
    listening.close()
    connection.recv(1)
    handle(connection)


def ask(address):
    client = socket.create_connection(address)
    client.send(b"x")
    client.recv(1)


def listen():
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(5)
    return listening


def tcp():
    listening = listen()
    child(serve, listening, culprit)
    address = listening.getsockname()
    listening.close()
    ask(address)


def tcp_backlog():
    listening = listen()
    child(culprit)
    address = listening.getsockname()
    listening.close()
    ask(address)


def listens_there():
    listening = socket.socket()
    listening.bind((sys.argv[3], 7411))
    listening.listen(5)
    serve(listening, lambda connection: culprit(connection))


def asks_there():
    while True:
        try:
            return ask((sys.argv[3], 7411))
        except OSError:
            time.sleep(0.01)  # not yet there


def connects_nowhere():
    tell("outside", pid=-1, reason="TCP")
    ask((sys.argv[3], 7411))


def tcp_mutual():
    listening = listen()

    def answer(connection):
        connection.recv(1)

    tell("deadlock")
    child(serve, listening, answer)
    address = listening.getsockname()
    listening.close()
    ask(address)


def mp_queue():
    one = multiprocessing.Queue()
    multiprocessing.Process(target=culprit, args=(one,)).start()
    one.get()


def mp_lock():
    one = multiprocessing.Lock()
    multiprocessing.Process(target=acquire_lock, args=(one,)).start()
    until(lambda: os.path.exists(TRUTH))
    one.acquire()


def pool():
    multiprocessing.Pool(3).apply(culprit)


def wait():
    os.waitpid(child(culprit), 0)


def command():
    program = subprocess.Popen(["sleep", "3600"])
    tell("sleeps", pid=program.pid)
    program.wait()


def lock_file(take):
    path = tempfile.mktemp()
    with open(path, "w") as file:
        other = open(path, "w")  # a file of its own, so that it is not the same lock
        child(lambda: (take(other), culprit()))
        other.close()
        until(lambda: os.path.exists(TRUTH))
        take(file)


def flock():
    lock_file(lambda file: fcntl.flock(file, fcntl.LOCK_EX))


def lockf():
    lock_file(lambda file: fcntl.lockf(file, fcntl.LOCK_EX))


def stop():
    tell("stopped", "stop")
    os.kill(os.getpid(), signal.SIGSTOP)


def stopped():
    ours, theirs = os.pipe()
    child(stop)
    os.close(theirs)
    os.read(ours, 1)


def zombie():
    ours, _theirs = os.pipe()
    tell("died", pid=child(int))
    os.read(ours, 1)


def terminal():
    _master, slave = os.openpty()
    os.dup2(slave, 0)
    tell("outside", pid=-1, reason="terminal")
    sys.stdin = open(0)
    input()


def chain():
    """This process waits for a second, that for a third, and that for a fourth."""
    path = tempfile.mktemp()
    open(path, "w").close()
    ours, theirs = os.pipe()
    here, there = socket.socketpair()

    def holds_file():
        file = open(path)
        fcntl.flock(file, fcntl.LOCK_EX)
        culprit(file)

    def wants_file():
        here.close()
        file = open(path)
        fcntl.flock(file, fcntl.LOCK_EX)

    def receives():
        os.close(ours)
        there.close()
        here.recv(1)

    # Each closes what it inherited and does not use, as programs should.
    fourth = os.fork()
    if fourth == 0:
        for fd in (ours, theirs):
            os.close(fd)
        here.close()
        there.close()
        holds_file()
    until(lambda: os.path.exists(TRUTH))
    if os.fork() == 0:
        os.close(ours)
        os.close(theirs)
        wants_file()
    child(receives)
    os.close(theirs)
    here.close()
    there.close()
    os.read(ours, 1)


# ── asyncio ──────────────────────────────────────────────────────────────────────────────────


def run_server(listening, handle):
    import asyncio

    async def main():
        await asyncio.start_server(handle, sock=listening)
        await asyncio.get_event_loop().create_future()

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(main())


def with_server(handle):
    listening = listen()
    child(run_server, listening, handle)
    address = listening.getsockname()
    listening.close()
    ask(address)


def asyncio_blocked():
    async def handle(reader, writer):
        await reader.read(1)
        culprit()

    with_server(handle)


def asyncio_waits():
    import asyncio

    async def handle(reader, writer):
        await reader.read(1)
        tell("unknown", reason="asyncio")
        await asyncio.Event().wait()

    with_server(handle)


# ── torch ────────────────────────────────────────────────────────────────────────────────────


class Data:
    def __len__(self):
        return 100

    def __getitem__(self, index):
        if index == 5:
            culprit()
        return float(index)


def data_loader():
    import torch.utils.data

    for _ in torch.utils.data.DataLoader(Data(), num_workers=2):
        pass


def gloo():
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    for step in range(100):
        if step == 3 and dist.get_rank() == 1:
            culprit()
        dist.all_reduce(torch.ones(1000))


def gloo_groups():
    """Two pairs of ranks. In the first, rank 1 is the cause; that rank 3 computes is no matter of theirs."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    rank = dist.get_rank()
    dist.all_reduce(torch.ones(10), group=pairs[rank // 2])
    if rank == 1:
        culprit()
    while rank == 3:
        sum(range(1000))
    dist.all_reduce(torch.ones(10), group=pairs[rank // 2])


REPORT = Report("none")
REPORT.ready()
{"asyncio": asyncio_blocked, "queue": wait_on_queue}.get(SCENARIO, globals().get(SCENARIO))()
