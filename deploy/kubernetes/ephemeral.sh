#!/usr/bin/env bash
# Attaches to processes of a running pod: ephemeral.sh POD CONTAINER [PROBING ARGUMENTS…]
#
#   ephemeral.sh training-0 train -t 1 backtrace
#
# The ephemeral container shares the pid namespace of CONTAINER and has the capability to look into it
# (--profile=sysadmin, Kubernetes 1.27 and later). It stays in the pod's list until the pod ends; nothing of the
# job is restarted.
set -euo pipefail
pod=${1:?POD} container=${2:?CONTAINER}
shift 2
image=${PROBING_IMAGE:-registry.example/probing:1} # any image with the wheel in it
[[ $# -gt 0 ]] || set -- list
exec kubectl debug -i "$pod" --target="$container" --image="$image" --profile=sysadmin --quiet -- probing "$@"
