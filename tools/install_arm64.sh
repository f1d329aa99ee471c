#!/usr/bin/env bash
# What building and testing for arm64 needs on another machine, in build/arm64: Debian's packages of that
# architecture (unpacked, never installed), its kernel, DuckDB for it. The system's own architecture
# and package lists stay as they are. Called by `install_deps.sh arm64`; what is there is left alone.
#
#   sysroot/       libraries and headers to build with
#   root/          the machine that tools/arm64_machine.py boots: C library, busybox, Python 3.11, pytest
#   python3.13/    Debian 13's, with its own C library, for the same machine
#   kernel/        vmlinuz, and the modules for a shared folder
#   kernel-16k/    of Debian 13, for pages of 16 KB: only with the argument `16k`
#   deps/duckdb/   libduckdb.so
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/arm64

say() { printf 'arm64: %s\n' "$*"; }
die() { printf 'arm64: %s\n' "$*" >&2; exit 1; }

BUILD=(libssl-dev liblz4-dev zlib1g-dev)
MACHINE=(busybox-static libc6 libgcc-s1 libstdc++6 strace
         python3.11 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib
         libexpat1 zlib1g libffi8 libssl3 libbz2-1.0 liblzma5 libuuid1 libcrypt1 libsqlite3-0)
PYTHON313=(python3.13 python3.13-minimal libpython3.13-minimal libpython3.13-stdlib
           libc6 libexpat1 zlib1g libffi8 libssl3t64 libbz2-1.0 liblzma5 libuuid1 libgcc-s1)
PYTEST=(pytest _pytest py.py pluggy iniconfig packaging pygments)  # all of it is Python

# An apt of its own per suite, with the system's mirror and keys.
prepare_apt() {
  local suite=$1 apt=$folder/apt-$1 mirror
  [[ -f $apt/ready ]] && return
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 'Created-By: Packages' |
           awk '$2 == "Debian" && $3 == "Debian" {print $1; exit}')
  [[ -n $mirror ]] || die "no Debian mirror in apt's sources. Next: apt-get update"
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,etc,packages}
  touch "$apt/state/status"
  echo "deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" \
    > "$apt/etc/sources.list"
  cat > "$apt/apt.conf" <<CONF
APT::Architecture "arm64";
APT::Architectures "arm64";
Dir::State "$apt/state";
Dir::State::status "$apt/state/status";
Dir::Cache "$apt/cache";
Dir::Etc::SourceList "$apt/etc/sources.list";
Dir::Etc::SourceParts "-";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Sandbox::User "root";
CONF
  say "reading the arm64 package lists of $suite"
  APT_CONFIG=$apt/apt.conf apt-get update -qq
  touch "$apt/ready"
}

# unpack SUITE INTO package…
unpack() {
  local suite=$1 into=$2 package packages
  shift 2
  [[ $(cat "$into/.unpacked" 2> /dev/null) == "$*" ]] && return
  prepare_apt "$suite"
  packages=$(mktemp -d "$folder/packages.XXXXXX")
  say "fetching $# packages of $suite into ${into#"$PWD"/}"
  (cd "$packages" && APT_CONFIG=$folder/apt-$suite/apt.conf apt-get download -qq "$@")
  rm -rf "$into"
  mkdir -p "$into"
  for package in "$packages"/*.deb; do dpkg -x "$package" "$into"; done
  rm -rf "$packages"
  echo "$*" > "$into/.unpacked"
}

# Compiled here, where it takes seconds: the machine, which is emulated, would take minutes for it at every start.
# The bytes are right for any 3.11; another Python than that leaves them out.
compile_python() {
  local library=$1 python=$2
  command -v "$python" > /dev/null || { say "no $python here: Python starts slowly there"; return 0; }
  "$python" -m compileall -q --invalidation-mode unchecked-hash -s "$folder/root" -p / "$library" > /dev/null || true
}

# Python 3.11 has pytest, from the venv of the tools.
add_pytest() {
  local to=$folder/root/usr/lib/python3/dist-packages name from
  [[ -f $to/.complete ]] && return
  mkdir -p "$to"
  from=$(build/venv/bin/python -c 'import pytest; print(pytest.__path__[0])')
  for name in "${PYTEST[@]}"; do cp -a "${from%/*}/$name" "$to/"; done
  cp -a "${from%/*}"/{pytest,pluggy}-*.dist-info "$to/"  # they ask for their versions
  find "$to" -name __pycache__ -prune -exec rm -rf {} +
  compile_python "$folder/root/usr/lib" "$(python_of 3.11)"
  touch "$to/.complete"
}

# One of this machine that writes the byte code of VERSION.
python_of() {
  local python
  for python in build/venv/bin/python "python$1" "build/pythons/$1/bin/python3"; do
    [[ $("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null) == "$1" ]] || continue
    echo "$python"
    return
  done
  echo "python$1"
}

# What is large and that no test needs.
trim() {
  rm -rf "$1"/usr/share/{doc,man,locale} "$1"/usr/lib/python3.*/{idlelib,tkinter,lib2to3,ensurepip,pydoc_data,test}
}

# fetch_kernel SUITE PACKAGE INTO: the one that the suite's latest depends on.
fetch_kernel() {
  local suite=$1 package=$2 into=$3 name
  [[ -f $into/.unpacked ]] && return
  prepare_apt "$suite"
  name=$(APT_CONFIG=$folder/apt-$suite/apt.conf apt-cache depends "$package" | awk '$1 == "Depends:" {print $2; exit}')
  [[ -n $name ]] || die "$package depends on no kernel"
  unpack "$suite" "$into" "$name"
}

command -v apt-get > /dev/null || die "no apt here, which fetches Debian's arm64 packages"
mkdir -p "$folder"
tools/fetch_duckdb.sh aarch64 "$folder/deps/duckdb"
unpack bookworm "$folder/sysroot" "${BUILD[@]}"
unpack bookworm "$folder/root" "${MACHINE[@]}"
trim "$folder/root"
add_pytest
unpack trixie "$folder/python3.13" "${PYTHON313[@]}"
trim "$folder/python3.13"
fetch_kernel bookworm linux-image-arm64 "$folder/kernel"
[[ ${1:-} != 16k ]] || fetch_kernel trixie linux-image-arm64-16k "$folder/kernel-16k"
