#!/usr/bin/env bash
# Runs a command where it meets nobody: with processes, loopback, /tmp, /dev/shm and /var/tmp of its own. So
# several runs of the tests on one machine do not share a probingd. Where that cannot be, it is run as it is.
#
#   apart.sh COMMAND…
#   apart.sh            says by its exit code whether it can be
set -euo pipefail
can=(unshare --mount --pid --net --ipc --fork --kill-child --mount-proc --propagation private)
if [[ $(id -u) -ne 0 ]] || ! command -v ip > /dev/null || ! "${can[@]}" true 2> /dev/null; then
  [[ $# -gt 0 ]] || exit 1
  exec "$@"
fi
[[ $# -gt 0 ]] || exit 0
folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
mkdir -m 1777 "$folder"/{tmp,var}
export folder
repository=$(cd "$(dirname "$0")/.." && pwd)
export repository
# Not exec: the first process of a namespace has to collect those that lost their parent.
"${can[@]}" bash -euc '
  mkdir -p /run/netns
  mount -t tmpfs tmpfs /run/netns  # names of further namespaces that a test makes
  if [[ $repository == /tmp/* ]]; then  # stays where it is
    mkdir -p "$folder$repository"
    mount --bind "$repository" "$folder$repository"
  fi
  mount --bind "$folder/var" /var/tmp
  mount --rbind "$folder/tmp" /tmp
  [[ $repository != /tmp/* ]] || cd "$repository"
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  ip link set lo up
  unset folder repository
  status=0
  "$@" || status=$?
  exit $status
' bash "$@"
