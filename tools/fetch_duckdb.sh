#!/usr/bin/env bash
# Puts DuckDB into build/deps/duckdb: libduckdb.so 1.5.6 as the npm package of its Node bindings
# has it, and duckdb.h (the C API, which only grows) of the npm package `duckdb` 1.4.4, because
# the first one carries no header. Both are checked against the sums below; when they are there,
# nothing is done. The registry is whatever npm is configured with.
set -euo pipefail
cd "$(dirname "$0")/.."

FOLDER=build/deps/duckdb
LIBRARY_PACKAGE=@duckdb/node-bindings-linux-x64@1.5.6-r.1
LIBRARY_MEMBER=package/libduckdb.so
LIBRARY_SHA256=3f4962cdd266eab2b479a5b5a4a6d063d279b2954ae814ed00385d553b747633
HEADER_PACKAGE=duckdb@1.4.4
HEADER_MEMBER=package/src/duckdb/src/include/duckdb.h
HEADER_SHA256=cbe6a827284375c5a646b8f27dbd3a00808ce8738b5bbb49c190cb1e08540281

say() { printf 'deps: %s\n' "$*"; }
die() { printf 'deps: %s\n' "$*" >&2; exit 1; }
is_right() { [[ -f $1 ]] && sha256sum --check --status <<< "$2  $1"; }

# fetch PACKAGE MEMBER SHA256: one file of a package, into $FOLDER. It gets its name only when it
# is whole and right, so an interrupted run leaves nothing that looks finished.
fetch() {
  local package=$1 member=$2 sum=$3 name work
  name=$(basename "$member")
  # The sum of 70 MB takes 0.2 s, and this runs before every build: a stamp says it was done.
  [[ -f $FOLDER/$name && $(cat "$FOLDER/$name.sha256" 2> /dev/null) == "$sum" ]] && return
  command -v npm > /dev/null || die "npm is missing, which fetches DuckDB.
      Next: as root: apt-get install --no-install-recommends npm"
  say "fetching $name ($package)"
  mkdir -p "$FOLDER"
  work=$(mktemp -d "$FOLDER/fetch.XXXXXX")
  # shellcheck disable=SC2064  # $work is expanded now: it is local
  trap "rm -rf '$work'" EXIT
  (cd "$work" && npm pack --silent --no-update-notifier "$package" > /dev/null) ||
    die "npm pack $package failed. Next: look at what \`npm pack $package\` says"
  tar -xzf "$work"/*.tgz -C "$work" "$member"
  is_right "$work/$member" "$sum" ||
    die "$member of $package has another SHA-256 than tools/fetch_duckdb.sh expects: not used"
  mv "$work/$member" "$FOLDER/$name"
  echo "$sum" > "$FOLDER/$name.sha256"
  rm -rf "$work"
  trap - EXIT
}

fetch "$LIBRARY_PACKAGE" "$LIBRARY_MEMBER" "$LIBRARY_SHA256"
fetch "$HEADER_PACKAGE" "$HEADER_MEMBER" "$HEADER_SHA256"
