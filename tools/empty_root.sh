#!/usr/bin/env bash
# Runs a command in a clone of this repository, in a Debian 12 that has nothing but what the distribution
# cannot do without: proof that `make demo` and `make test` need nothing else.
#
#   empty_root.sh FOLDER 'make demo'     FOLDER is made when it is missing, and kept; remove it to begin anew
#   EMPTY_ROOT_SHARE='/a /b'             folders of this machine that the command may read there
#
# The command is init of a pid namespace of its own, on a root of its own (not a chroot, in which the kernel
# allows no user namespaces), and takes everything it started with it. It has this machine's network, and the
# settings of apt, pip and npm by which their registries are reached. The clone has what was committed.
# Needs root and debootstrap.
set -euo pipefail
die() { printf 'empty_root: %s\n' "$*" >&2; exit 1; }

[[ $# -eq 2 ]] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[[ $(id -u) -eq 0 ]] || die "making a root needs root"
command -v debootstrap > /dev/null || die "no debootstrap. Next: apt-get install debootstrap"
repository=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
root=$(cd "$1" && pwd)
command=$2

make_root() {
  local mirror
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
           awk '$2 == "bookworm" {print $1; exit}')
  debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} > "$root.log" 2>&1 ||
    die "debootstrap failed, see $root.log"
  touch "$root/.complete"
}

# What the machine's clients are told about where to get things, at the same places; never committed.
copy_settings() {
  local file
  rm -rf "$root"/etc/apt/{sources.list,sources.list.d,apt.conf.d}
  for file in /etc/apt/{sources.list,sources.list.d,apt.conf.d} /etc/resolv.conf /etc/hosts /etc/pip.conf \
              /usr/local/share/ca-certificates "$HOME"/{.config/pip,.npmrc}; do
    [[ -e $file ]] || continue
    mkdir -p "$root$(dirname "$file")"
    cp -rL --remove-destination "$file" "$root$(dirname "$file")/"
  done
}

[[ -e $root/.complete ]] || make_root
copy_settings
if [[ -d $root/probing/.git ]]; then  # with what was built there
  git -C "$root/probing" fetch --quiet "$repository" HEAD
  git -C "$root/probing" reset --quiet --hard FETCH_HEAD
else
  git clone --quiet --no-hardlinks "$repository" "$root/probing"
fi

# Variables that say the same as those files; nothing else of this shell goes in.
settings=$(env -0 | grep -zE '^(PIP_|npm_config_|NPM_CONFIG_|NODE_EXTRA_CA_CERTS=|SSL_CERT_|[a-z]*_proxy=)' |
           tr '\0' '\n' || true)
mapfile -t settings <<< "$settings"

export root command EMPTY_ROOT_SHARE=${EMPTY_ROOT_SHARE:-}
export -n DEBIAN_FRONTEND
exec unshare --mount --pid --fork --kill-child --ipc --uts --propagation private bash -euc '
  mount --bind "$root" "$root"
  cd "$root"
  for folder in $EMPTY_ROOT_SHARE; do
    mkdir -p ".$folder"
    mount --bind -o ro "$folder" ".$folder"
  done
  mount -t proc proc proc
  mount --rbind /sys sys
  mount --rbind /dev dev
  mount -t tmpfs -o mode=1777 tmpfs dev/shm
  mount -t tmpfs -o mode=755 tmpfs run
  mkdir -p .old run/lock
  pivot_root . .old
  umount -l .old
  cd /probing
  exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 TERM="${TERM:-dumb}" "$@" bash -c "$command; exit \$?"  # which stays, and reaps what is left
' bash "${settings[@]:-_=}"
