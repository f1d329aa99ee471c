#!/usr/bin/env bash
# Puts DuckDB into a folder: libduckdb.so as the npm package of its Node bindings has it, and duckdb.h (the C
# API, which only grows) of the npm package `duckdb` 1.4.4, because the first one carries no header. Both are
# checked against the sums below (npm_file.sh). The registry has 1.5.6 for x86-64 only.
#
#   fetch_duckdb.sh [PROCESSOR FOLDER]      of this machine, and build/deps/duckdb
set -euo pipefail
cd "$(dirname "$0")/.."

processor=${1:-$(uname -m)} folder=${2:-build/deps/duckdb}
case $processor in
  x86_64)
    package=@duckdb/node-bindings-linux-x64@1.5.6-r.1
    sum=3f4962cdd266eab2b479a5b5a4a6d063d279b2954ae814ed00385d553b747633
    ;;
  aarch64)
    package=@duckdb/node-bindings-linux-arm64@1.5.5-r.5
    sum=d00d007f3f7ca1f2896a5e4b89c2ce141bf0508506a9d6d56f9598b8e59d074e
    ;;
  *) echo "deps: there is no DuckDB for $processor" >&2; exit 1 ;;
esac
header_sum=cbe6a827284375c5a646b8f27dbd3a00808ce8738b5bbb49c190cb1e08540281

tools/npm_file.sh "$package" package/libduckdb.so "$sum" "$folder"
tools/npm_file.sh duckdb@1.4.4 package/src/duckdb/src/include/duckdb.h "$header_sum" "$folder"
