#!/usr/bin/env bash
# The product in a minute, in three acts: a job that hangs, one that is slow, one that leaks. Each is an ordinary
# program of examples/ that knows nothing of Probing and is looked into while it runs. Run by `make demo`.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=build/release/bin
python=${PYTHON:-build/torch-venv/bin/python}
pictures=build/demo
if [[ -t 1 ]]; then bold=$'\033[1;36m' dim=$'\033[2m' off=$'\033[0m'; else bold='' dim='' off=''; fi

folder=$(mktemp -d)
jobs_started=()
cleanup() {
  for job in "${jobs_started[@]}"; do kill "$job" 2> /dev/null && wait "$job" 2> /dev/null || true; done
  rm -rf "$folder"
}
trap cleanup EXIT
mkdir -p "$pictures"

heading() { printf '\n%s%s%s\n' "$bold" "$*" "$off"; }
show() {  # prints a command as one would type it, then runs it; ranks without a probe (6) are what is shown here
  local words=''
  for word in "$@"; do
    if [[ $word == *[[:space:]]* ]]; then words+=" \"$word\""; else words+=" $word"; fi
  done
  printf '%s$ probing%s%s\n' "$dim" "$words" "$off"
  "$bin/probing" "$@" || [[ $? -eq 6 ]]
}
start() {  # starts an example; its pid is $job
  printf '%s$ python %s &%s\n' "$dim" "$1" "$off"
  "$python" "$1" > "$folder/output" 2>&1 &
  job=$!
  jobs_started+=("$job")
}
wait_for() {  # waits until the stack of a process shows a function
  local tries
  for ((tries = 0; tries < 600; tries++)); do
    if "$bin/probing" -t "$1" backtrace 2> /dev/null | grep -q "$2"; then return; fi
    kill -0 "$1" 2> /dev/null || break
    sleep 0.1
  done
  echo "demo: $2 was not seen in process $1" >&2
  exit 1
}

heading "1. A training on two ranks hangs. Which rank is it, and where?"
start examples/hang.py
until grep -q 'rank 1' "$folder/output"; do kill -0 "$job"; sleep 0.05; done
rank1=$(sed -n 's/^rank 1 is process //p' "$folder/output")
wait_for "$rank1" look_at_bad_batch
echo "The job has no probe. Stacks are read from outside, nothing is stopped:"
show diagnose
echo "Load the probe into rank 1 while it hangs, and ask that process for its variables:"
show -t "$rank1" inject
show -t "$rank1" eval --frame 3 'step, model, tuple(loss.shape)'

heading "2. A training is slow. Which of its layers, and which lines?"
start examples/transformer.py
slow=$job
wait_for "$slow" forward
show -t "$slow" inject
show -t "$slow" config probing.torch.profiling=full
blocks="FROM python.torch_trace WHERE module_type = 'Block' AND stage = 'forward'"
until "$bin/probing" -t "$slow" query -f csv "SELECT count(*) > 50 $blocks" 2> /dev/null | grep -q true; do sleep 0.1; done
show -t "$slow" query "SELECT module, round(avg(duration_ms), 2) AS ms $blocks GROUP BY ALL ORDER BY ms DESC LIMIT 3"
show -t "$slow" flamegraph -d 2 -o "$pictures/slow.svg"
kill "$slow"

heading "3. A training needs more memory with every step. What grows, and what holds it?"
start examples/leak.py
leaking=$job
wait_for "$leaking" step
show -t "$leaking" inject
show -t "$leaking" memory --leaks -d 2
show -t "$leaking" eject
kill -0 "$leaking"
echo "The job runs on, as it was before."

heading "The same in a browser"
port=$("$python" -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
show serve --listen "127.0.0.1:$port" --background
page="http://127.0.0.1:$port/#/cluster"  # the finding stands first there, and leads to the stacks
echo "The finding: $page   the flame graph: $pictures/slow.svg"
if [[ -t 0 && -t 1 ]]; then
  if [[ -n ${DISPLAY:-}${WAYLAND_DISPLAY:-} ]] && command -v xdg-open > /dev/null; then
    xdg-open "$page" > /dev/null 2>&1 || true
  fi
  read -r -p "The jobs go on as long as you look. Enter ends them: " _
fi
"$bin/probing" serve --listen "127.0.0.1:$port" --close > /dev/null
show -t "$rank1" eject
