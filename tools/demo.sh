#!/usr/bin/env bash
# The product in a minute: a training job that knows nothing of us is started, looked at from
# outside, entered, asked, and left again as it was found. Run by `make demo`.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=build/release/bin
python=${PYTHON:-python3}
if [[ -t 1 ]]; then bold=$'\033[1;36m' dim=$'\033[2m' off=$'\033[0m'; else bold='' dim='' off=''; fi

job=
job_output=$(mktemp)
cleanup() {
  if [[ -n $job ]]; then kill "$job" 2> /dev/null || true; wait "$job" 2> /dev/null || true; fi
  rm -f "$job_output"
}
trap cleanup EXIT

heading() { printf '\n%s%s%s\n' "$bold" "$*" "$off"; }
show() {  # shows a command as one would type it, then runs it
  printf '%s$ probing %s%s\n' "$dim" "${*@Q}" "$off" | sed "s/'\([-A-Za-z0-9_.:=]*\)'/\1/g"
  "$bin/probing" "$@"
}

heading "A training job, started as always: $python examples/demo_train.py"
"$python" examples/demo_train.py > "$job_output" &
job=$!
until grep -q training "$job_output"; do
  kill -0 "$job" 2> /dev/null || { echo "demo: the job did not start" >&2; exit 1; }
  sleep 0.05
done
echo "pid $job"

heading "Where is it right now? Nothing is injected for this"
show -t "$job" backtrace

heading "Enter it while it runs"
show -t "$job" inject

heading "Ask it"
show -t "$job" eval 'print("step", step, "loss", round(loss, 4))'
show -t "$job" eval 'type(network).__name__'

heading "Who is being watched on this machine?"
show list

heading "Ask in SQL: stacks, /proc, what was recorded"
show -t "$job" query "SELECT thread_name, func, lineno, state FROM python.stacks WHERE depth = 0"
show -t "$job" query "SELECT name, threads, cpu_percent, rss / 1048576 AS rss_mb FROM system.process"

heading "Look at it: stacks, flame graphs, training, SQL in a browser"
port=$("$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
show serve --listen "127.0.0.1:$port" --background
if [[ -t 0 && -t 1 ]]; then
  read -r -p "The job goes on as long as you look. Enter leaves it: " _
fi
"$bin/probing" serve --listen "127.0.0.1:$port" --close > /dev/null

heading "Leave it as it was found"
show -t "$job" eject
kill -0 "$job" && echo "the job runs on"
