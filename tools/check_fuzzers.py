#!/usr/bin/env python3
"""Every parser of untrusted bytes has a fuzzer.

A parser is a function in a header of src named like one (Parse…, Decode…, Read…, see VERBS) that takes text
or bytes. Each is in PARSERS: with the fuzzer that feeds it, or with the reason why nobody else writes its
input. A new one that is not there, one that is gone, and a fuzzer that does not call it are errors.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERBS = (
    r"(?:Parse|Decode|Unpack|Unescape|Unpickle|Receive|Sniff|Demangle|Translate|Canonical|Read|Take|Split|From"
    r"|ToSelect|AgentHosts|OomKillIn|HeadOf)[A-Za-z0-9]*"
)
BYTES = (
    r"(?:std::string_view|std::string\b|std::span<const (?:std::byte|char|std::uint8_t|unsigned char)>"
    r"|const char\*|RawRequest|Channel&)"
)
INSIDE = r"(?:[^()]|\([^()]*\))*?"
DECLARATION = re.compile(rf"\b({VERBS})\({INSIDE}{BYTES}{INSIDE}\)")

# "header function": "fuzzer", "fuzzer: what it calls that leads there", or "trusted: why".
PARSERS = {
    "arch/prologue.h ReadPrologue": "cfi_fuzz: RowFromPrologue",
    "backtrace/backtrace.h ReadCore": "core_file_fuzz: CoreFile",
    "base/base64.h FromBase64": "tcp_store_fuzz: AgentHosts",
    "base/data_tree.h ReadJson": "data_tree_fuzz",
    "base/data_tree.h ReadPickle": "data_tree_fuzz",
    "base/file.h ReadFile": "trusted: bytes as they are; the argument is a path of ours",
    "base/file.h ReadLink": "trusted: bytes as they are; the argument is a path of ours",
    "base/text.h ParseNumber": "settings_fuzz: CanonicalValue",
    "base/text.h TakePart": "request_fuzz",
    "cli/each_host.h ReadHostFile": "trusted: a file that the user names",
    "cli/history_file.h UnescapeEntry": "trusted: the user's own history of the prompt",
    "cli/parse.h ParseCommandLine": "trusted: what the user typed",
    "cli/parse.h TranslateProbe": "trusted: what the user typed",
    "cli/prompt.h Read": "trusted: what the user types; the arguments are prompts",
    "cli/target.h ParseDirectory": "trusted: what the user typed",
    "cli/target.h ParseTarget": "trusted: what the user typed",
    "cluster/packing.h Unpack": "packing_fuzz",
    "cluster/sources.h FromEtcd": "tcp_store_fuzz: Etcd",
    "cluster/tcp_store.h AgentHosts": "tcp_store_fuzz",
    "cluster/tcp_store.h ReadStore": "tcp_store_fuzz",
    "daemon/mcp_resources.h ReadMcpResource": "trusted: compares with the names of tables and guides",
    "daemon/rules.h ParseRule": "trusted: the owner's own rules",
    "daemon/text_commands.h SplitWord": "text_commands_fuzz: AnswerLine",
    "flame/ranks.h ParseRanks": "trusted: what the user typed",
    "heap/heap.h ReadCore": "core_file_fuzz: CoreFile",
    "history/batch.h Decode": "messages_fuzz",
    "history/messages.h Decode": "messages_fuzz",
    "history/spool.h Take": "messages_fuzz: Batch",
    "incident/contents.h Read": "incident_fuzz",
    "incident/file.h Parse": "incident_fuzz: Read",
    "inject/preflight_rules.h Parse": "preflight_fuzz",
    "inject/sandbox.h Parse": "preflight_fuzz",
    "net/channel.h Read": "http_answer_fuzz: ReadAnswer",
    "net/http_answer.h ReadAnswer": "http_answer_fuzz",
    "net/http_answer.h ReadAnswerHead": "http_answer_fuzz: ReadAnswer",
    "observe/gpu/ascend.h ParseNpuSmi": "host_text_fuzz",
    "observe/host/cgroup.h Read": "host_text_fuzz: FindNumber",
    "observe/host/kept_file.h Read": "trusted: bytes as they are; the argument is a buffer",
    "observe/host/kernel_log.h FromNow": "trusted: opens a file; its records are OomKillIn's",
    "observe/host/kernel_log.h OomKillIn": "host_text_fuzz",
    "observe/host/kernel_record.h ParseKernelRecord": "host_text_fuzz",
    "observe/host/proc_text.h ParseNumber": "host_text_fuzz",
    "observe/host/proc_text.h ParseTaskStat": "host_text_fuzz",
    "observe/host/proc_text.h TakeLine": "host_text_fuzz",
    "observe/host/proc_text.h TakeWord": "host_text_fuzz",
    "observe/host/process_table.h ReadProcesses": "host_text_fuzz: ParseTaskStat",
    "observe/host/ring_rows.h ReadRows": "ring_reader_fuzz: ReadEverything",
    "observe/host/thread_watch.h ReadDetails": "host_text_fuzz: ParseTaskStat",
    "observe/nccl/ras_client.h ParseRasAddress": "ras_status_fuzz",
    "observe/nccl/ras_status.h ParseRasJson": "ras_status_fuzz",
    "observe/nccl/ras_status.h ParseRasStatus": "ras_status_fuzz",
    "observe/nccl/ras_status.h ParseRasText": "ras_status_fuzz",
    "probe/evaluations.h TakeFromQueue": "trusted: no parser; takes entries of a queue",
    "process/blocked_call.h ParseBlockedCall": "status_fuzz: ReadBlockedCall",
    "process/blocked_call.h ReadBlockedCall": "status_fuzz",
    "process/blocked_call.h ReadTimesRun": "status_fuzz",
    "process/core_notes.h ParseCoreNotes": "core_file_fuzz: CoreFile",
    "process/job_identity.h ParseJobIdentity": "job_identity_fuzz",
    "process/job_identity.h ReadJobIdentity": "job_identity_fuzz: ParseJobIdentity",
    "process/maps.h Parse": "maps_fuzz",
    "process/maps.h Read": "maps_fuzz: Parse",
    "process/source_file.h ReadFileOf": "trusted: bytes as they are; only the beginning is compared",
    "process/source_file.h ReadSourceFile": "trusted: bytes as they are",
    "process/status.h ReadStatus": "status_fuzz",
    "process/thread_status.h ReadThreadStatus": "status_fuzz",
    "query/gathered_rows.h Parse": "protocol_fuzz",
    "query/kept_statements.h Take": "trusted: no parser; finds a statement by its text",
    "query/packing.h Unpacker": "protocol_fuzz: Decode",
    "query/protocol.h Decode": "protocol_fuzz",
    "query/protocol.h DecodeResult": "protocol_fuzz",
    "query/protocol.h DecodeTexts": "protocol_fuzz",
    "query/request.h ParseFormat": "trusted: compares with the names of formats",
    "query/sql_error.h ParseEngineError": "trusted: DuckDB's own text; unit tests have its shapes",
    "server/connection.h Sniff": "request_fuzz",
    "server/http_translate.h HeadOf": "session_fuzz: RunHttpSession",
    "server/http_translate.h Translate": "session_fuzz: RunHttpSession",
    "server/url.h ParseUrl": "request_fuzz",
    "store/answer.h ToSelect": "answer_fuzz",
    "table/history_files.h ParseHistoryPath": "history_files_fuzz",
    "table/history_files.h UnescapeName": "history_files_fuzz",
    "table/rows.h Decode": "protocol_fuzz: Rows",
    "tls/client.h Read": "trusted: OpenSSL reads records; what is in them is ReadAnswer's",
    "unwind/cfi.h ParseCie": "cfi_fuzz",
    "unwind/cfi.h ParseFde": "cfi_fuzz",
    "unwind/cython.h ReadMarks": "cython_fuzz",
    "unwind/demangle.h Demangle": "module_fuzz",
    "unwind/jit_code.h ParsePerfMap": "jit_code_fuzz",
    "why/file_locks.h ParseFileLocks": "kernel_tables_fuzz",
    "why/sockets.h ParseTcpTable": "kernel_tables_fuzz",
    "why/sockets.h ReadUnixPeers": "trusted: the argument is a path of ours; the kernel answers",
    "wire/bounds.h ParseBounds": "settings_fuzz: CanonicalValue",
    "wire/address.h ParseAddress": "names_fuzz",
    "wire/node_list.h ParseAddresses": "names_fuzz",
    "wire/node_list.h ParseHosts": "names_fuzz",
    "wire/node_list.h TakeItem": "names_fuzz: ParseHosts",
    "wire/outlet_url.h ParseHeaders": "names_fuzz",
    "wire/outlet_url.h ParseOutletUrl": "names_fuzz",
    "wire/peers.h ParsePeers": "names_fuzz",
    "wire/settings.h CanonicalValue": "settings_fuzz",
    "wire/store_url.h ParseStoreUrl": "names_fuzz",
    "wire/torch_spec.h CanonicalTorchSpec": "names_fuzz",
    "wire/url_text.h TakeUser": "names_fuzz: ParseOutletUrl",
}


def parsers_of(text: str) -> set[str]:
    """Names of the functions that a header declares, and does not only call."""
    text = re.sub(r"//[^\n]*", "", text)
    found = DECLARATION.finditer(text)
    calls = re.compile(r"(?:\breturn|[=.(,!&|]|->|<<)\s*$")
    return {each[1] for each in found if not calls.search(text[max(0, each.start() - 12) : each.start()])}


def declared(sources: Path) -> set[str]:
    found = set()
    for path in sources.rglob("*.h"):
        if "test" not in path.name:
            found |= {f"{path.relative_to(sources)} {name}" for name in parsers_of(path.read_text())}
    return found


def problems(sources: Path, known: dict[str, str], corpus: Path) -> list[str]:
    fuzzers = {path.stem: path.read_text() for path in sources.rglob("*_fuzz.cc")}
    there = declared(sources)
    found = [
        f"src/{each}: feed it with a fuzzer and add it to PARSERS" for each in sorted(there - set(known))
    ]
    found += [f"src/{each}: is gone; remove it from PARSERS" for each in sorted(set(known) - there)]
    for parser, how in known.items():
        fuzzer, _, through = how.partition(": ")
        if fuzzer == "trusted":
            continue
        called = through or parser.split()[1]
        if not re.search(rf"\b{called}\b", fuzzers.get(fuzzer, "")):
            found.append(f"src/{parser}: {fuzzer} does not call {called}")
    found += [
        f"tests/corpus/{name}: has no seeds; tools/make_seeds.py writes some"
        for name in sorted(fuzzers)
        if not any((corpus / name).glob("*"))
    ]
    return found


def main() -> int:
    found = problems(ROOT / "src", PARSERS, ROOT / "tests/corpus")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
