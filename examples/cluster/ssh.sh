#!/bin/bash
# Measures between hosts that have ssh and a shared folder, without a launcher. The result is a file
# in that folder.
#   usage: ssh.sh SHARED-FOLDER MEASURING-HOST SERVING-HOST...
set -euo pipefail

[ $# -ge 3 ] || { echo "usage: $0 SHARED-FOLDER MEASURING-HOST SERVING-HOST..." >&2; exit 2; }
shared=$1
shift
# The command that starts programs on a host, the program, and its arguments. A shell on the host reads EFA_BENCH.
remote=${REMOTE:-ssh}
efa_bench=${EFA_BENCH:-efa-bench}
read -ra benchmark <<<"${BENCHMARK:-latency --fabric libfabric:efa}"

# Ranks of one run share a folder; another run has another one, and another result.
folder=$(mktemp -d "$shared/efa-bench-XXXXXX")
trap 'rm -rf "$folder"' EXIT
json=
[[ " ${benchmark[*]}" == *" --json"* ]] || json=$folder.json

# What is interrupted ends on all hosts: a rank goes on when its ssh ends. It has this run's folder
# in its command line. The plus stands for one dash, so that the pattern does not find itself.
hosts=("$@")
pids=()
# shellcheck disable=SC2317,SC2329 # The traps call it.
interrupted() {
  local end=(pkill -f "efa-+bench-${folder##*-}") ends=() host
  trap - INT TERM
  "$remote" "${hosts[0]}" "${end[@]}" || true
  sleep 1 # Rank 0 writes down what it has measured, and most others end with it.
  for host in "${hosts[@]:1}"; do
    "$remote" "$host" "${end[@]}" &
    ends+=($!)
  done
  wait "${ends[@]}" || true
  kill "${pids[@]}" 2>/dev/null || true
  wait
  exit "$1"
}
trap 'interrupted 130' INT
trap 'interrupted 143' TERM

ranks=$#
rank=0
for host in "${hosts[@]}"; do
  words=(run "${benchmark[@]}" --rendezvous "$folder" --rank "$rank" --ranks "$ranks")
  [ "$rank" != 0 ] || [ -z "$json" ] || words+=(--json "$json")
  # A shell there reads the words again.
  mapfile -t words < <(printf '%q\n' "${words[@]}")
  "$remote" "$host" "$efa_bench" "${words[@]}" &
  pids+=($!)
  rank=$((rank + 1))
done

# Rank 0 says how it went; the others end with it.
status=0
for pid in "${pids[@]}"; do
  wait "$pid" || status=$?
done
[ "$status" != 0 ] || [ -z "$json" ] || echo "the result, for efa-bench report: $json"
exit "$status"
