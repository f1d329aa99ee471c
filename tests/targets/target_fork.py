"""Forks short-lived workers as a DataLoader does; each looks at what it inherited from the probe.

Children report what they see of ours: threads beyond the one that forked, sockets, rings.
"""

import os
import time

from report import Report

report = Report("children", "failed", "with_thread", "with_socket", "with_ring")


def mentions(text, word):
    return any(word in line for line in text.splitlines())


def child():
    status = open("/proc/self/status").read()
    if not mentions(status, "Threads:\t1"):
        report["with_thread"] += 1
    links = []
    for name in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink("/proc/self/fd/" + name))
        except OSError:
            pass
    if any(link.startswith("socket:") for link in links):
        report["with_socket"] += 1
    if mentions(open("/proc/self/maps").read(), "memfd:probing-ring"):
        report["with_ring"] += 1
    x = sum(i * i for i in range(1000))
    return 0 if x == 332833500 else 1


report.ready()
while True:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = child()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        report["failed"] += 1
    report["children"] += 1
    time.sleep(0.005)
