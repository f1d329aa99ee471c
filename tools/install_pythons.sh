#!/usr/bin/env bash
# Interpreters that Debian 12 does not have, as targets for the tests: packages of Debian's other
# suites, unpacked and run through their own loader (3.9, 3.13, 3.14, 3.15), and the free-threaded
# builds (3.13t, 3.14t, 3.15t; from Debian's sources, some ten minutes each). Nothing is installed
# into the system; all of it is in build/pythons. The tests find them there.
#
#   install_pythons.sh [VERSION…]        these; without any: 3.14 3.15 3.13t 3.14t 3.15t
#   install_pythons.sh --missing         of 3.9 and 3.13, what this machine has not (a fresh Debian 12 has
#                                        3.11 only); what cannot be fetched is said and left out
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/build/pythons
apt=$root/apt
suites=(bullseye trixie sid)
source_suites=(forky trixie)  # mirrors may lack the sources of the newest suite
# An older source that stays in the pool when a mirror lacks the one its lists name.
pooled_file=pool/main/p/python3.14/python3.14_3.14.7.orig.tar.xz
pooled_sha256=3b48dac8fb59f62eaa67ac83c1eb12bda1b7a08406dd286e252c11a66be27f81

say() { printf 'pythons: %s\n' "$*"; }
die() { printf 'pythons: %s\n' "$*" >&2; exit 1; }

# An apt of our own with the system's mirror and keys, so that the system's package lists stay.
prepare_apt() {
  [[ -f $apt/ready ]] && return
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' 'Created-By: Packages' |
           awk '$2 == "Debian" && $3 == "Debian" {print $1; exit}')
  [[ -n $mirror ]] || die "no Debian mirror in apt's sources. Next: apt-get update"
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial,etc,packages}
  local options="[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror"
  printf "deb $options %s main\n" "${suites[@]}" > "$apt/etc/sources.list"
  printf "deb-src $options %s main\n" "${source_suites[@]}" >> "$apt/etc/sources.list"
  cat > "$apt/apt.conf" <<CONF
Dir::State "$apt/state";
Dir::Cache "$apt/cache";
Dir::Etc::SourceList "$apt/etc/sources.list";
Dir::Etc::SourceParts "-";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
APT::Sandbox::User "root";
CONF
  say "reading the package lists of ${suites[*]}"
  APT_CONFIG=$apt/apt.conf apt-get update -qq
  touch "$apt/ready"
}

# Which suite has a version, and the libraries it needs, by their names there.
suite_of() {
  case $1 in
    3.9) echo bullseye ;;
    3.13) echo trixie ;;
    *) echo sid ;;
  esac
}
libraries_of() {
  local common="libc6 libstdc++6 libexpat1 zlib1g libsqlite3-0 liblzma5 libbz2-1.0 libncursesw6 libtinfo6 libuuid1"
  case $1 in
    bullseye) echo "$common libgcc-s1 libcrypt1 libssl1.1 libffi7 libreadline8" ;;
    *) echo "$common libgcc-s1 libssl3t64 libffi8 libreadline8t64 libzstd1" ;;
  esac
}

# They bring the libc of their suite, and its loader starts them.
unpack_python() {
  local version=$1 tree=$root/$1/tree suite package lib packages=$apt/packages/$1
  lib=$tree/usr/lib/x86_64-linux-gnu
  suite=$(suite_of "$version")
  prepare_apt
  say "fetching Python $version"
  rm -rf "$packages" "$tree"
  mkdir -p "$packages" "$tree" "$root/$version/bin"
  # Each by its suite, since the oldest one has libraries that the newest one has as well.
  local wanted=()
  for package in "python$version" "python$version-minimal" "libpython$version-minimal" "libpython$version-stdlib" \
    $(libraries_of "$suite"); do
    wanted+=("$package/$suite")
  done
  (cd "$packages" && APT_CONFIG=$apt/apt.conf apt-get download -qq "${wanted[@]}")
  for package in "$packages"/*.deb; do dpkg -x "$package" "$tree"; done
  # Older suites have their loader and libc below /lib.
  if [[ -d $tree/lib/x86_64-linux-gnu ]]; then
    cp -a "$tree"/lib/x86_64-linux-gnu/. "$lib/"
  fi
  cat > "$root/$version/bin/python3" <<RUN
#!/bin/sh
PYTHONHOME=$tree/usr exec $lib/ld-linux-x86-64.so.2 --library-path $lib $tree/usr/bin/python$version "\$@"
RUN
  chmod +x "$root/$version/bin/python3"
}

fetch_pooled() {
  local mirror file=$1/${pooled_file##*/}
  mirror=$(awk '$1 == "deb" {print $3}' "$apt/etc/sources.list")
  say "fetching ${pooled_file##*/} instead"
  curl -fsSL -o "$file" "${mirror%/}/$pooled_file"
  sha256sum --quiet -c <<< "$pooled_sha256  $file" || die "${file##*/} is not the file we know"
}

build_free_threaded() {
  local version=${1%t} source=$root/source-$1
  prepare_apt
  say "fetching the source of Python $version"
  mkdir -p "$source"
  for suite in "${source_suites[@]}"; do
    (cd "$source" && APT_CONFIG=$apt/apt.conf apt-get source -qq --download-only "python$version/$suite") &&
      break
  done
  if ! compgen -G "$source/*.orig.tar.xz" > /dev/null && [[ $pooled_file == *"/python$version/"* ]]; then
    fetch_pooled "$source"
  fi
  (cd "$source" && tar -xf python"$version"_*.orig.tar.xz --strip-components=1)
  say "building Python $1 (some ten minutes; $source/build.log)"
  (cd "$source" && { ./configure --quiet --disable-gil --prefix="$root/$1" --without-ensurepip &&
    nice make -s -j"$(nproc)" && make -s install; } > build.log 2>&1) || die "see $source/build.log"
  rm -rf "$source"
}

# Any python3.x of the PATH or of pyenv.
is_here() {
  command -v "python$1" > /dev/null || compgen -G "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1.*/bin/python3" > /dev/null
}

install_python() {
  if [[ ! -x $root/$1/bin/python3 ]]; then
    case $1 in
      *t) build_free_threaded "$1" ;;
      *) unpack_python "$1" ;;
    esac
  fi
  "$root/$1/bin/python3" -c 'import sys; print("pythons:", sys.version.replace("\n", ""))'
}

if [[ ${1:-} == --missing ]]; then
  for version in 3.9 3.13; do
    is_here "$version" && continue
    # In a shell of its own: a mirror without that suite costs one Python, not the tests.
    if [[ ! -x $root/$version/bin/python3 ]]; then
      "$0" "$version" || say "Python $version cannot be had here: not tested"
    fi
  done
  exit 0
fi
[[ $# -gt 0 ]] || set -- 3.14 3.15 3.13t 3.14t 3.15t
for version in "$@"; do install_python "$version"; done
