#!/usr/bin/env bash
# What building and testing for arm64 needs on another machine, in build/arm64: Debian's packages of that
# architecture (unpacked, never installed), its kernel, DuckDB for it. The system's own architecture
# and package lists stay as they are. Called by `install_deps.sh arm64`; what is there is left alone.
#
#   sysroot/       libraries and headers to build with
#   root/          the machine that tools/arm64_machine.py boots
#   kernel/        vmlinuz, and the modules for a shared folder
#   deps/duckdb/   libduckdb.so
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/arm64

say() { printf 'arm64: %s\n' "$*"; }
die() { printf 'arm64: %s\n' "$*" >&2; exit 1; }

BUILD=(libssl-dev liblz4-dev zlib1g-dev)
MACHINE=(busybox-static libc6 libgcc-s1)

# As fetch_duckdb.sh does; the registry's newest for this architecture.
DUCKDB_PACKAGE=@duckdb/node-bindings-linux-arm64@1.5.5-r.5
DUCKDB_MEMBER=package/libduckdb.so
DUCKDB_SHA256=d00d007f3f7ca1f2896a5e4b89c2ce141bf0508506a9d6d56f9598b8e59d074e

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
  [[ -f $into/.unpacked ]] && return
  prepare_apt "$suite"
  packages=$(mktemp -d "$folder/packages.XXXXXX")
  say "fetching $# packages of $suite into ${into#"$PWD"/}"
  (cd "$packages" && APT_CONFIG=$folder/apt-$suite/apt.conf apt-get download -qq "$@")
  rm -rf "$into"
  mkdir -p "$into"
  for package in "$packages"/*.deb; do dpkg -x "$package" "$into"; done
  rm -rf "$packages"
  touch "$into/.unpacked"
}

# The kernel's package is named by what the suite's latest depends on.
fetch_kernel() {
  [[ -f $folder/kernel/.unpacked ]] && return
  prepare_apt bookworm
  local name
  name=$(APT_CONFIG=$folder/apt-bookworm/apt.conf apt-cache depends linux-image-arm64 |
         awk '$1 == "Depends:" {print $2; exit}')
  [[ -n $name ]] || die "linux-image-arm64 depends on no kernel"
  unpack bookworm "$folder/kernel" "$name"
}

command -v apt-get > /dev/null || die "no apt here, which fetches Debian's arm64 packages"
mkdir -p "$folder"
tools/npm_file.sh "$DUCKDB_PACKAGE" "$DUCKDB_MEMBER" "$DUCKDB_SHA256" "$folder/deps/duckdb"
unpack bookworm "$folder/sysroot" "${BUILD[@]}"
unpack bookworm "$folder/root" "${MACHINE[@]}"
fetch_kernel
