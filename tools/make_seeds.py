#!/usr/bin/env python3
"""Writes the seeds of the fuzzers to tests/corpus: small valid inputs, made on this machine.

Needs g++ and a python3; run it again when a fuzzer's format changes. Files that were added by hand
(what once broke a reader) stay.
"""

from __future__ import annotations

import base64
import json
import pickle
import struct
import subprocess
import tempfile
from pathlib import Path

CORPUS = Path(__file__).resolve().parent.parent / "tests/corpus"
LIBRARY = """
extern "C" { int _PyRuntime = 7; }
extern "C" int f(int n) { volatile char room[200]; room[n] = 1; return n > 0 ? f(n - 1) + room[0] : 1; }
namespace some::where { struct Thing { int call(int) const; }; int Thing::call(int n) const { return f(n); } }
"""
TCP = (
    b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    b"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n"
    b"   1: 0000000000000000FFFF00000100007F:1F90 00000000000000000000000001000000:0050 01 "
    b"00000000:00000010 00:00000000 00000000     0        0 5 1 0\n"
)
LOCKS = (
    b"1: POSIX  ADVISORY  WRITE 40 08:01:123 0 EOF\n"
    b"1: -> POSIX  ADVISORY  WRITE 50 08:01:123 0 EOF\n"
    b"2: OFDLCK ADVISORY  READ -1 08:01:125 0 EOF\n"
)
MAPS = b"""\
55d0c0000000-55d0c0001000 r--p 00000000 fe:00 1234 /usr/bin/python3.11
55d0c0001000-55d0c0002000 r-xp 00001000 fe:00 1234 /usr/bin/python3.11
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f1000000000-7f1000001000 r--s 00000000 00:05 99 /memfd:a b (deleted)
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
"""
STATUS = b"""\
Name:\ta (name)\nState:\tS (sleeping)\nPPid:\t1\nTracerPid:\t0
Uid:\t0\t0\t0\t0\nNSpid:\t100\t1\nThreads:\t3\nSeccomp:\t2\nSeccomp_filters:\t1
x86_Thread_features:\tshstk
"""
STAT = b"17 (a) name) S 1 17 17 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 4711 1000 200\n"
# As line_table_test.cc has them: Python 3.8, 3.10 and the start of one of 3.12.
LINE_TABLES = (
    "000202010201020102ff02fe04060801040108010e010e020801060102ff",
    "020202010201020102ff04fe0806040108010c01080102ff02800c030601020106ff",
    "8000e40809d80809dc0809d80c0df30302090af3050509068041f00c000e0ff200060512",
)


def write(fuzzer: str, name: str, content: bytes) -> None:
    folder = CORPUS / fuzzer
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def make_library(folder: Path, hash_style: str) -> bytes:
    source, library = folder / "a.cc", folder / "a.so"
    source.write_text(LIBRARY)
    flags = ["-O1", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code,-z,max-page-size=4096"]
    flags += ["-Wl,--build-id=none", f"-Wl,--hash-style={hash_style}"]
    subprocess.run(["g++", *flags, "-o", str(library), str(source)], check=True)
    return library.read_bytes()


def make_core() -> bytes:
    """One page of memory, one thread, one mapped file."""

    def note(kind: int, content: bytes) -> bytes:
        content += b"\0" * (-len(content) % 4)
        return struct.pack("<III", 5, len(content), kind) + b"CORE\0\0\0\0" + content

    thread = bytearray(336)  # elf_prstatus
    struct.pack_into("<i", thread, 32, 77)
    process = bytearray(136)  # elf_prpsinfo
    struct.pack_into("<i", process, 24, 77)
    process[56:62] = b"a.out "
    files = struct.pack("<QQQQQ", 1, 4096, 0x40000, 0x41000, 0) + b"/bin/true\0"
    auxiliary = struct.pack("<QQQQ", 9, 0x40010, 0, 0)
    notes = note(1, bytes(thread)) + note(3, bytes(process)) + note(0x46494C45, files) + note(6, auxiliary)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    start = 64 + 3 * 56
    segments = struct.pack("<IIQQQQQQ", 4, 0, start, 0, 0, len(notes), len(notes), 4)
    memory_at = start + len(notes)
    segments += struct.pack("<IIQQQQQQ", 1, 6, memory_at, 0x10000, 0, 256, 0x1000, 1)
    segments += struct.pack("<IIQQQQQQ", 1, 5, memory_at, 0x40000, 0, 0, 0x1000, 1)
    return header + segments + notes + bytes(range(256))


def make_messages() -> bytes:
    def message(number: int, **fields: bytes) -> bytes:
        body = struct.pack("<I", number)
        for key, value in fields.items():
            body += struct.pack("<HI", len(key), len(value)) + key.encode() + value
        return struct.pack("<I", len(body)) + body

    return b"\x09" + message(1, verb=b"eval", code=b"1+1", timeout_ms=b"100") + message(2, error=b"no")


def make_entries() -> bytes:
    cie = bytes([0, 0, 0, 0, 1, *b"zR", 0, 1, 0x78, 16, 1, 0x1B, 0x0C, 7, 8, 0x90, 1])
    fde = bytes([0, 0, 0, 0, 0xFC, 0x0F, 0, 0, 0x40, 0, 0, 0, 0])
    fde += bytes([0x41, 0x0E, 16, 0x86, 2, 0x43, 0x0D, 6, 0x7B, 0x0C, 7, 8])
    expression = bytes([0x77, 8, 0x80, 0, 0x3F, 0x1A, 0x3B, 0x2A, 0x33, 0x24, 0x22])  # a PLT's
    return bytes([len(cie)]) + cie + bytes([len(fde)]) + fde + expression


# What a peer sends (session_fuzz.cc): \x01 before it is the owner, \x80 a stranger who pauses in the middle.
HEAD = b"Host: 127.0.0.1\r\nContent-Type: application/json\r\n"
TOKEN = b"Authorization: Bearer a-token-that-nobody-can-guess\r\n"
UPGRADE = (
    b"GET /socket HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
POST = b"POST /json HTTP/1.1\r\n" + HEAD
HI = bytes([0x81, 0x82, 1, 2, 3, 4, ord("h") ^ 1, ord("i") ^ 2, 0x88, 0x80, 0, 0, 0, 0])  # and goodbye
CONVERSATIONS = {
    "post": b"\x01" + POST + b'Content-Length: 10\r\n\r\n{"a": [1]}',
    "chunks": b"\x81" + POST + b'Transfer-Encoding: chunked\r\n\r\n5;x=y\r\n{"a":\r\n3\r\n 1}\r\n0\r\n\r\n',
    "broken_chunks": b"\x01POST /json HTTP/1.1\r\n"
    + HEAD
    + b"Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n{",
    "expect": b"\x01" + POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    "pipeline": b"\x01" + (b"GET /text?a=%20b HTTP/1.1\r\n" + HEAD + b"\r\n") * 3,
    "events": b"\x01GET /events?wrong=1 HTTP/1.1\r\n" + HEAD + b"\r\n",
    "socket": b"\x81"
    + UPGRADE
    + bytes([0x81, 0x82, 1, 2, 3, 4, ord("h") ^ 1, ord("i") ^ 2, 0x88, 0x80, 0, 0, 0, 0]),
    "token": b"\x80" + POST + TOKEN + b"Content-Length: 2\r\n\r\n{}",
    "no_token": b"\x80GET /text HTTP/1.1\r\n" + HEAD + b"Cookie: probing_session=00\r\n\r\n",
    "two_hosts": b"\x01GET /text HTTP/1.1\r\n" + HEAD + b"Host: evil\r\n\r\n",
    "absolute": b"\x01GET http://127.0.0.1/text HTTP/1.1\r\n" + HEAD + b"\r\n",
    "head": b"\x01HEAD /text HTTP/1.0\r\nHost: [::1]:80\r\nConnection: keep-alive\r\n\r\n",
    "text": b"\x81help\r\nselect 1\nquit\n",
    "text_token": b"\x80token a-token-that-nobody-can-guess\nbt\n",
    "text_no_token": b"\x80token wrong\nbt\n",
    "garbage": b"\x01\x00\x01\x80\xff\n",
}
# Lines after the number of targets (text_commands_fuzz.cc).
LINES = {
    "none": b"\x00bt\nlist\neval 1\nstatus",
    "one": b"\x01help\nbt\neval print(1)\nconfig a\nconfig a=b\nstatus\ntables python.'x\nselect 1\n\n",
    "two": b"\x02bt\neval 1\nuse 4711\neval 1\nuse 99999999999\nbt 99999999999999\n config \t x ",
}


def make_answers() -> dict[tuple[str, str], bytes]:
    """What other hosts, stores, workers and the kernel say."""
    http = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n\r\n{}"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    node = b'{"instance":"1","host":"h","version":"1","ranks":2,"wall_ns":5,"knows":["10.0.0.1:1"]}'
    members = b'{"kvs":[{"key":"L3A=","value":"MTAuMC4wLjE6MQ=="}]}'
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    agents = base64.b64encode(pickle.dumps([{"addr": "node7", "pid": 1}, {"addr": "node8"}], 4))
    text = struct.pack("<Q", 3) + b"abc"
    file = b"job=J/rank=0/day=2026-01-01/table=python.gc/here~7~17~1~0~5~17672256~17672257.parquet"
    environment = b"RANK=3\0WORLD_SIZE=8\0LOCAL_RANK=1\0SLURM_JOB_ID=17\0MASTER_ADDR=h\0MASTER_PORT=1\0"
    killed = b"3,1,2,-;Out of memory: Killed process 17 (python3) total-vm:1kB, anon-rss:2kB\n"
    store = b'{"meta":[{"name":"a","type":"Int64"},{"name":"b","type":"String"}],"data":[["1","x\'y"]]}'
    return {
        ("http_answer_fuzz", "length"): http,
        ("http_answer_fuzz", "chunks"): chunked,
        ("web_socket_fuzz", "text"): b"\x81\x02{}\x89\x00\x01\x01a\x80\x01b",
        ("web_socket_fuzz", "close"): b"\x81\x7e\x00\x80" + b"x" * 128 + b"\x88\x02\x03\xe8",
        ("packing_fuzz", "block"): struct.pack("<Q", 5) + b"\x50hello",
        ("tcp_store_fuzz", "agents"): b"\0" + agents,
        ("tcp_store_fuzz", "value"): b"\x01\0" + text,
        ("tcp_store_fuzz", "etcd"): b"\x02" + head % len(members) + members,
        ("tcp_store_fuzz", "node"): b"\x03" + head % len(node) + node,
        ("answer_fuzz", "rows"): store,
        ("protocol_fuzz", "text"): b"\x06" + text,
        ("protocol_fuzz", "open"): b"\0" + struct.pack("<q", 1) + text,
        ("messages_fuzz", "status"): text + struct.pack("<Q", 0) + text + struct.pack("<Q", 0),
        ("names_fuzz", "hosts"): b"node[001-003,7],other:3344",
        ("names_fuzz", "address"): b"[::1]:3344",
        ("names_fuzz", "peers"): b"slurm,dns:workers:3344,etcd:10.0.0.1:2379/probing",
        ("names_fuzz", "store"): b"clickhouse://me:secret@host:8123/db?secure=1",
        ("names_fuzz", "torch"): b"on,exprs=loss@train,acc1@train,rate=0.1",
        ("job_identity_fuzz", "torchrun"): environment,
        ("history_files_fuzz", "path"): file,
        ("host_text_fuzz", "stat"): STAT,
        ("host_text_fuzz", "status"): STATUS,
        ("host_text_fuzz", "killed"): killed,
    }


def make_incident(tables: dict[str, tuple[list[list[str]], int, list[list[object]]]]) -> bytes:
    """An incident file (src/incident/format.h): {name: (columns, how many are its own, rows)}."""

    def checksum(data: bytes) -> int:
        total = 0xCBF29CE484222325
        for byte in data:
            total = (total ^ byte) * 0x100000001B3 % (1 << 64)
        return total

    def cell(value: object, kind: str) -> bytes:
        if value is None:
            return b"\0"
        if kind == "string":
            text = str(value).encode()
            return b"\1" + struct.pack("<Q", len(text)) + text
        if kind == "bool":
            return b"\1\1" if value else b"\1\0"
        return b"\1" + struct.pack("<d" if kind == "double" else "<q", value)

    types = {"int64": 0, "double": 1, "bool": 2, "string": 3, "bytes": 4, "timestamp": 0}
    entries, blocks = [], b""
    for name, (columns, own, lines) in tables.items():
        block = struct.pack("<QQ", len(columns), len(lines)) + bytes(types[kind] for _, kind in columns)
        for i, (_, kind) in enumerate(columns):
            block += b"".join(cell(line[i], kind) for line in lines)
        sizes = {"bytes": len(block), "unpacked": len(block), "sum": checksum(block)}
        entry = {"name": name, "columns": columns, "own": own, "rows": len(lines), "left_out": 0}
        entries.append({**entry, "is_packed": False, **sizes})
        blocks += block
    index = json.dumps(
        {"recorded_ns": 1_700_000_000_000_000_000, "diagnosis": {}, "tables": entries}
    ).encode()
    head = struct.pack("<16sIIQQ", b"PROBING INCIDENT", 1, 0, len(index), checksum(index))
    return head + index + blocks


def make_incidents() -> dict[tuple[str, str], bytes]:
    process = [["pid", "int64"], ["rank", "int64"], ["host", "string"], ["job", "string"]]
    here = [7, 0, "here", "job"]
    stacks = ([["depth", "int64"], ["func", "string"], *process], 2, [[0, "f", *here], [1, None, *here]])
    collections = ([["timestamp", "timestamp"], ["generation", "int64"], *process], 2, [[5, 2, *here]])
    own = (
        [["timestamp", "timestamp"], ["loss", "double"], ["good", "bool"], *process],
        3,
        [[5, 0.5, True, *here]],
    )
    children = ([["pid", "int64"], ["name", "string"], *process[1:]], 2, [[9, "worker", *here[1:]]])
    good = make_incident({"python.stacks": stacks, "python.gc": collections, "python.mine": own})
    index_first = good[40:].replace(b"]}" + struct.pack("<Q", 6), b"]}\0" + struct.pack("<Q", 6), 1)
    return {
        ("incident_fuzz", "small"): good,
        ("incident_fuzz", "children"): make_incident({"system.process": children, "python.stacks": stacks}),
        ("incident_fuzz", "cut"): good[:-9],
        ("incident_fuzz", "repairable"): b"x" * 40 + index_first,
    }


def make_debug_info(folder: Path, version: int) -> bytes:
    """A library whose function has another one inlined into it, with debug information."""
    source = folder / "lines.c"
    source.write_text(
        "static inline __attribute__((always_inline)) int inner(int v) { return v * v; }\n"
        "int outer(int v) {\n  return inner(v) + inner(v + 1);\n}\n"
    )
    output = folder / f"lines{version}.so"
    flags = [f"-gdwarf-{version}", "-O2", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code"]
    prefix = f"-ffile-prefix-map={folder}=/source"
    subprocess.run(["gcc", *flags, prefix, "-o", str(output), str(source)], check=True, cwd=folder)
    return output.read_bytes()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for version in (4, 5):
            write("debug_info_fuzz", f"dwarf{version}", make_debug_info(Path(folder), version))
        write("jit_code_fuzz", "object", make_debug_info(Path(folder), 5))
        write("jit_code_fuzz", "perf_map", b"100 40 py::train:/job.py\n140 20 other\n")
        for style in ("gnu", "sysv"):
            library = make_library(Path(folder), style)
            for fuzzer in ("elf_image_fuzz", "module_fuzz"):
                write(fuzzer, f"library_{style}_hash", library)
    write("maps_fuzz", "process", MAPS)
    write("kernel_tables_fuzz", "tcp", TCP)
    write("kernel_tables_fuzz", "locks", LOCKS)
    for name, text in (
        ("status", STATUS),
        ("stat", STAT),
        ("syscall", b"202 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8\n"),
    ):
        write("status_fuzz", name, text)
    write("preflight_fuzz", "status", STATUS)
    write("core_file_fuzz", "one_page", make_core())
    for number, table in enumerate(LINE_TABLES):
        head = struct.pack("<Bii", number, 1, 30)
        write("line_table_fuzz", ("lnotab", "line_table", "locations")[number], head + bytes.fromhex(table))
    write("cfi_fuzz", "function", make_entries())
    write("cfi_fuzz", "prologue", b"\0\0" + bytes.fromhex("f30f1efa554889e541574156534881ec88000000"))
    for minor in range(7):
        write("stack_reader_fuzz", f"python3{minor + 6}", bytes([minor]))
        write("object_reader_fuzz", f"python3{minor + 6}", bytes([minor]))
        write("heap_fuzz", f"python3{minor + 6}", bytes([minor]))
    moving = struct.pack("<BBHH", 9, 0, 0x800, 0x900) * 4
    write("stack_reader_fuzz", "moving", b"\x04" + moving)
    write("object_reader_fuzz", "moving", b"\x06" + moving)
    write("heap_fuzz", "moving", b"\x06" + moving)
    # Classes, which come last in the memory: a base, a flag, a dict, a list of members that change meanwhile.
    for number, how in enumerate((0, 2, 3, 5)):
        places = ((5 * i, how, 0x6A00 + 104 * i, 0x2000 + 264 * i) for i in range(40))
        patches = b"".join(struct.pack("<BBHH", *place) for place in places)
        write("object_reader_fuzz", f"classes{how}", bytes([number + 3]) + patches)
    write("message_fuzz", "two", make_messages())
    for name, text in (("seconds", b"probing.eval.timeout=0.5"), ("bytes", b"probing.max_memory=1GB")):
        write("settings_fuzz", name, text)
    for name, text in CONVERSATIONS.items():
        write("session_fuzz", name, text)
    for name, text in LINES.items():
        write("text_commands_fuzz", name, text)
    for (fuzzer, name), content in {**make_answers(), **make_incidents()}.items():
        write(fuzzer, name, content)


if __name__ == "__main__":
    main()
