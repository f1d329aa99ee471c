#!/usr/bin/env bash
# Installs what building and testing needs: Debian packages (as root), the Python tools of
# tools/requirements.txt in build/venv, DuckDB in build/deps, what the web page is made of and with in
# web/node_modules. What is there is left alone, so a second run takes no time, no network and no rights.
#
#   install_deps.sh          build and test
#   install_deps.sh clang    + clang 19 for the sanitizers and clang-tidy
#   install_deps.sh bench    + the tools that bench/ compares with, in build/bench-venv
#   install_deps.sh torch    + PyTorch in build/torch-venv (1 GB), for tests and bench that skip without
#   install_deps.sh frameworks  + Hugging Face's Trainer and Lightning on it, in build/frameworks-venv
#   install_deps.sh launchers  + Open MPI, Ray and DeepSpeed, in build/launchers-venv, for tests that skip without
#   install_deps.sh spark    + PySpark in build/spark-venv (450 MB), for a test of history that skips without
#   install_deps.sh docs     + what builds the documentation, in build/docs-venv
#   install_deps.sh clients  + programs of others that talk to probingd in the tests, in build/clients-venv
#   install_deps.sh arm64    + what builds for arm64 and runs tests there, in build/arm64 (300 MB) and qemu
#   install_deps.sh e2e      + chromium, and what drives it, in build/e2e-venv
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'deps: %s\n' "$*"; }
die() { printf 'deps: %s\n' "$*" >&2; exit 1; }

# Versions are those of Debian 12, which do not change; libraries with a version in their name
# are asked for by that name.
BUILD_PACKAGES=(make g++ libc6-dev binutils cmake ninja-build
                libgtest-dev libboost1.81-dev nlohmann-json3-dev libcli11-dev libssl-dev liblz4-dev zlib1g-dev
                python3 python3-venv ca-certificates git)
TEST_PACKAGES=(strace gdb util-linux procps musl-tools iproute2 curl runsc)
# What the tests talk to. They start these themselves, with directories and ports of their own.
SERVER_PACKAGES=(etcd-server openssh-server openssh-client clickhouse-server clickhouse-client prometheus
                 prometheus-alertmanager)
E2E_PACKAGES=(chromium fonts-dejavu-core)
BENCH_PACKAGES=(wrk)
LAUNCHER_PACKAGES=(openmpi-bin)
ARM64_PACKAGES=(qemu-system-arm)
CLANG_PACKAGES=(clang-19 clang-tidy-19 libclang-rt-19-dev)

install_packages() {
  command -v dpkg-query > /dev/null || { say "no Debian here: please provide $*"; return; }
  local missing=() package installed
  installed=$(dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' "$@" 2> /dev/null | sed -n 's/^ii *//p' || true)
  for package in "$@"; do
    grep -qxF "$package" <<< "$installed" || missing+=("$package")
  done
  [[ ${#missing[@]} -eq 0 ]] && return
  [[ $(id -u) -eq 0 ]] || die "missing packages: ${missing[*]}
      Next: run as root: apt-get install --no-install-recommends ${missing[*]}"
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -q --no-install-recommends "${missing[@]}" |
    awk '/^Setting up / {printf "deps:   %s\n", $3; fflush()}'
}

# Packages of servers start them, unless this file says no.
install_servers() (
  if [[ $(id -u) -eq 0 && ! -e /usr/sbin/policy-rc.d ]]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
  fi
  install_packages "${SERVER_PACKAGES[@]}"
)

# The first python3 of the PATH that the tools support; pyenv's or Debian's, both will do.
find_python() {
  local python
  while read -r python; do
    if "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2> /dev/null; then
      echo "$python"
      return
    fi
  done < <(type -ap python3)
  die "no python3 >= 3.10 with venv in PATH. Next: apt-get install python3 python3-venv"
}

# Python 3.11, which PyTorch's pinned version is installed for: of the PATH, or one of pyenv's.
find_python311() {
  local python
  for python in python3.11 python3 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.11.*/bin/python3; do
    if "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info[:2] != (3, 11))' 2> /dev/null; then
      command -v "$python"
      return
    fi
  done
  return 1
}

# install_venv DIR REQUIREMENTS [PYTHON]: makes DIR when it is missing, installs what it has not got.
install_venv() {
  local venv=$1 requirements=$2
  if [[ ! -x $venv/bin/python ]]; then
    local python=${3:-}
    [[ -n $python ]] || python=$(find_python)
    say "creating $venv with $("$python" --version)"
    mkdir -p "$(dirname "$venv")"
    "$python" -m venv "$venv"
  fi
  "$venv/bin/python" tools/check_requirements.py "$requirements" && return
  say "installing $(grep -c == "$requirements") Python packages into $venv"
  "$venv/bin/python" -m pip install --disable-pip-version-check --quiet --progress-bar off -r "$requirements"
}

# The same for what needs torch, which is that of build/torch-venv.
install_venv_with_torch() {
  local venv=$1 requirements=$2
  [[ -x build/torch-venv/bin/python ]] || return 0
  if [[ ! -x $venv/bin/python ]]; then
    "$(build/torch-venv/bin/python -c 'import sys; print(sys._base_executable)')" -m venv "$venv"
    echo "$PWD/build/torch-venv/lib/python3.11/site-packages" > "$venv/lib/python3.11/site-packages/torch.pth"
  fi
  install_venv "$venv" "$requirements"
}

# Exactly what web/package-lock.json says, with the sums it has. No package runs a script of its own.
install_web() {
  local lock=web/package-lock.json stamp=web/node_modules/.installed
  cmp -s "$lock" "$stamp" && return
  say "installing the packages of the web page into web/node_modules"
  (cd web && npm ci --ignore-scripts --silent) ||
    die "npm ci failed in web/. Next: look at what \`cd web && npm ci --ignore-scripts\` says"
  cp "$lock" "$stamp"
}

case ${1:-build} in
  build)
    # npm fetches DuckDB, Node builds the web page; whoever has them from elsewhere needs none of Debian's.
    command -v npm > /dev/null || BUILD_PACKAGES+=(npm)
    command -v node > /dev/null || BUILD_PACKAGES+=(nodejs)
    install_packages "${BUILD_PACKAGES[@]}" "${TEST_PACKAGES[@]}"
    install_venv build/venv tools/requirements.txt
    tools/fetch_duckdb.sh
    install_web
    ;;
  servers) install_servers ;;
  clang) install_packages "${CLANG_PACKAGES[@]}" ;;
  bench)
    install_packages "${BENCH_PACKAGES[@]}"
    install_venv build/bench-venv bench/requirements.txt
    ;;
  docs) install_venv build/docs-venv docs/requirements.txt ;;
  torch)
    if [[ -x build/torch-venv/bin/python ]] || python311=$(find_python311); then
      install_venv build/torch-venv tests/integration/torch_requirements.txt "${python311:-}"
    else
      say "no Python 3.11 with venv here, which PyTorch is installed for: its tests are skipped"
    fi
    ;;
  frameworks)
    "$0" torch
    install_venv_with_torch build/frameworks-venv tests/integration/framework_requirements.txt
    ;;
  launchers)
    "$0" torch
    install_packages "${LAUNCHER_PACKAGES[@]}"
    install_venv_with_torch build/launchers-venv tests/integration/launcher_requirements.txt
    ;;
  spark) install_venv build/spark-venv tests/integration/spark_requirements.txt ;;
  clients) install_venv build/clients-venv tests/integration/client_requirements.txt ;;
  arm64)
    if [[ $(uname -m) != aarch64 ]]; then
      install_packages "${ARM64_PACKAGES[@]}"
      tools/install_arm64.sh
    fi
    ;;
  e2e)
    install_packages "${E2E_PACKAGES[@]}"
    install_venv build/e2e-venv tests/e2e/requirements.txt
    ;;
  *) die "unknown part '$1': build, servers, clients, clang, bench, docs, torch, frameworks, launchers, spark, arm64 or e2e" ;;
esac
