"""Waits for a second and a half, again and again, in one of the calls that a stop would begin anew."""

import asyncio
import socket
import struct
import sys
import time

from report import Report

SECONDS = 1.5


def sleep_in_epoll():
    loop = asyncio.new_event_loop()
    while True:
        yield lambda: loop.run_until_complete(asyncio.sleep(SECONDS))


def receive_with_a_time_out():
    end, other = socket.socketpair()
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 1, 500000))

    def receive():
        try:
            end.recv(1)
        except BlockingIOError:
            return
        raise AssertionError(other)

    while True:
        yield receive


report = Report("fired", "latest_ms", "early")
report.ready()
for wait in {"epoll": sleep_in_epoll, "socket": receive_with_a_time_out}[sys.argv[1]]():
    began = time.monotonic()
    wait()
    late_ms = int((time.monotonic() - began - SECONDS) * 1000)
    report["early"] += late_ms < -20
    report["latest_ms"] = max(report["latest_ms"], max(0, late_ms))
    report["fired"] += 1
