#!/usr/bin/env bash
# Ray 2.60.0: `ray start --head` uses the token of ~/.ray/auth_token, `ray start --address` does not.
# Guessed: with the same file, a second machine joins. Seen: it is turned away (InvalidAuthToken) unless
# RAY_AUTH_MODE=token is set, which the head needs not.
# Met by: whoever follows the advice of the head, "generate a token with `ray get-auth-token --generate`",
# on several machines. docs/scaling.md sets the variable everywhere.
set -euo pipefail
folder=$(mktemp -d)
jobs=()
stop() {
  for job in "${jobs[@]}"; do kill -- "-$job" 2> /dev/null || true; done
  sleep 5 # Ray ends its processes
  rm -rf "$folder"
}
trap stop EXIT
cd "$folder"
python3 -m venv env
env/bin/pip install --quiet ray==2.60.0

export HOME=$folder RAY_USAGE_STATS_ENABLED=0 PATH=$folder/env/bin:$PATH
unset RAY_AUTH_MODE
# start NAME FLAGS: in the background; waits until it runs, or has ended
start() {
  setsid ray start --block --num-cpus 1 --object-store-memory 80000000 "${@:2}" > "$1" 2>&1 &
  jobs+=($!)
  until grep -q 'runtime started' "$1"; do
    kill -0 "${jobs[-1]}" 2> /dev/null || return 1
    sleep 1
  done
}
ray get-auth-token --generate > /dev/null 2>&1
start head --head --port 6399 --include-dashboard false
head=$(grep -o -m 1 'Local node IP: .*' head | cut -d ' ' -f 4):6399
if start without --address "$head"; then
  echo "expected the second node to be turned away"
  exit 1
fi
grep -o -m 1 'InvalidAuthToken: [^.]*' without
RAY_AUTH_MODE=token start with --address "$head"
echo "with RAY_AUTH_MODE=token it runs"
