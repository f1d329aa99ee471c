#!/usr/bin/env bash
# Puts DuckDB into build/deps/duckdb: libduckdb.so 1.5.6 as the npm package of its Node bindings
# has it, and duckdb.h (the C API, which only grows) of the npm package `duckdb` 1.4.4, because
# the first one carries no header. Both are checked against the sums below (npm_file.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

FOLDER=build/deps/duckdb
LIBRARY_PACKAGE=@duckdb/node-bindings-linux-x64@1.5.6-r.1
LIBRARY_MEMBER=package/libduckdb.so
LIBRARY_SHA256=3f4962cdd266eab2b479a5b5a4a6d063d279b2954ae814ed00385d553b747633
HEADER_PACKAGE=duckdb@1.4.4
HEADER_MEMBER=package/src/duckdb/src/include/duckdb.h
HEADER_SHA256=cbe6a827284375c5a646b8f27dbd3a00808ce8738b5bbb49c190cb1e08540281

fetch() { tools/npm_file.sh "$1" "$2" "$3" "$FOLDER"; }

fetch "$LIBRARY_PACKAGE" "$LIBRARY_MEMBER" "$LIBRARY_SHA256"
fetch "$HEADER_PACKAGE" "$HEADER_MEMBER" "$HEADER_SHA256"
