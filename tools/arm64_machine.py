#!/usr/bin/env python3
"""Boots Debian's arm64 kernel in qemu and runs something there. tools/arm64_tests.py runs tests.

    arm64_machine.py COMMAND…    a command there, in the checkout

PROBING_ARM64_KERNEL=kernel-16k boots the one with pages of 16 KB (tools/install_arm64.sh 16k).

What it needs comes from `tools/install_deps.sh arm64`. The machine is a file system in memory: Debian's C
library, busybox and Pythons. Two folders are shared with it: the checkout, which it may only read and which
has the path that it has here, and /out for what comes out.
"""

from __future__ import annotations

import lzma
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = ROOT / "build/arm64"
KERNEL = PARTS / os.environ.get("PROBING_ARM64_KERNEL", "kernel")
QEMU = "qemu-system-aarch64"
# The kernel's modules for a shared folder, in the order in which they need each other.
MODULES = (
    "drivers/virtio/virtio_mmio",
    "fs/netfs/netfs",
    "fs/fscache/fscache",
    "net/9p/9pnet",
    "net/9p/9pnet_virtio",
    "fs/9p/9p",
)
SECONDS = 3600
# Debian 13's Python, with its own C library: its loader starts it. sys.executable is this script.
PYTHON313 = """#!/bin/sh
tree=/opt/pythons/3.13/tree
lib=$tree/usr/lib/aarch64-linux-gnu
export PYTHONHOME=$tree/usr
exec $lib/ld-linux-aarch64.so.1 --argv0 "$0" --library-path $lib $tree/usr/bin/python3.13 "$@"
"""
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /out /root /etc /usr/local/bin
/bin/busybox --install -s /usr/local/bin
/bin/busybox ln -sf busybox /bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin HOME=/root TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs -o mode=1777 tmp /tmp
ip link set lo up
hostname arm64
mkdir -p CHECKOUT
for module in /modules/*.ko; do insmod $module || echo "no $module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose src CHECKOUT
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 out /out
# Pythons of the host are none here.
[ -d CHECKOUT/build/pythons ] && mount -t tmpfs pythons CHECKOUT/build/pythons
echo root:x:0:0:root:/root:/bin/sh > /etc/passwd
cd CHECKOUT
sh /out/job > /out/output 2>&1
echo $? > /out/code
sync
poweroff -f
"""


class Missing(Exception):
    """Something that the machine is made of; its text says what and how to get it."""


def newc(name: str, mode: int, data: bytes, mtime: int) -> bytes:
    """One member of an initial file system (cpio, the format the kernel reads)."""
    path = name.encode() + b"\0"
    fields = [0, mode, 0, 0, 1, mtime, len(data), 0, 0, 0, 0, len(path), 0]
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + path
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def tree(folder: Path, below: str = "") -> Iterator[bytes]:
    for path in sorted(folder.rglob("*")):
        name = below + str(path.relative_to(folder))
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            yield newc(name, info.st_mode, os.readlink(path).encode(), int(info.st_mtime))
        elif stat.S_ISDIR(info.st_mode):
            yield newc(name, info.st_mode, b"", int(info.st_mtime))
        elif stat.S_ISREG(info.st_mode):
            yield newc(name, info.st_mode, path.read_bytes(), int(info.st_mtime))


def folders(*names: str) -> Iterator[bytes]:
    for name in names:
        yield newc(name, stat.S_IFDIR | 0o755, b"", 0)


def module_bytes(path: Path) -> bytes | None:
    """Newer kernels compress them, and have some built in."""
    packed = path.with_suffix(".ko.xz")
    if packed.exists():
        return lzma.decompress(packed.read_bytes())
    return path.read_bytes() if path.exists() else None


def write_file_system(to: Path) -> None:
    kernel = next(path for path in KERNEL.glob("**/modules/*/kernel"))
    with to.open("wb") as file:
        file.writelines(tree(PARTS / "root"))
        file.writelines(folders("modules", "dev", "opt", "opt/pythons", "opt/pythons/3.13"))
        file.writelines(folders("opt/pythons/3.13/bin", "opt/pythons/3.13/tree"))
        file.writelines(tree(PARTS / "python3.13", "opt/pythons/3.13/tree/"))
        file.write(newc("opt/pythons/3.13/bin/python3", stat.S_IFREG | 0o755, PYTHON313.encode(), 0))
        for number, module in enumerate(MODULES):
            data = module_bytes(kernel / f"{module}.ko")
            if data is None:
                continue
            file.write(newc(f"modules/{number}-{Path(module).name}.ko", stat.S_IFREG | 0o644, data, 0))
        file.write(newc("init", stat.S_IFREG | 0o755, INIT.replace("CHECKOUT", str(ROOT)).encode(), 0))
        file.write(newc("TRAILER!!!", 0, b"", 0))


def check_parts() -> None:
    if shutil.which(QEMU) is None:
        raise Missing(f"no {QEMU} here: tools/install_deps.sh arm64")
    for part in ("kernel", "root", "python3.13"):
        if not (PARTS / part / ".unpacked").exists():
            raise Missing(f"no {part} for arm64 in {PARTS}: tools/install_deps.sh arm64")


def boot(job: str, out: Path, timeout: float) -> int:
    """Runs the shell script `job` there; its output and whatever else it leaves are in `out`."""
    check_parts()
    (out / "job").write_text(job)
    image = out / "file-system"
    write_file_system(image)
    kernel = next((KERNEL / "boot").glob("vmlinuz-*"))
    # A quick way of signing pointers: nobody attacks this machine.
    command = (
        f"{QEMU} -M virt -cpu max,pauth-impdef=on -smp 2 -m 2048 -nographic -no-reboot -nic none".split()
    )
    command += ["-kernel", str(kernel), "-initrd", str(image)]
    command += ["-append", "console=ttyAMA0 quiet panic=-1 rdinit=/init"]
    for tag, path, options in (("src", ROOT, ",readonly=on"), ("out", out, "")):
        command += ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{options}"]
        command += ["-device", f"virtio-9p-device,fsdev={tag},mount_tag={tag}"]
    with (out / "console").open("wb") as console:
        subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            timeout=timeout,
        )
    code = out / "code"
    return int(code.read_text()) if code.exists() else 255


def show(out: Path) -> None:
    """What the machine said, or, when it did not get that far, its console."""
    said = out / "output"
    print((said if said.exists() else out / "console").read_text(errors="replace"))


def run(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="probing-arm64-") as folder:
        code = boot(shlex.join(arguments), Path(folder), SECONDS)
        show(Path(folder))
    return code


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        return run(sys.argv[1:])
    except Missing as missing:
        print(f"arm64: {missing}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
