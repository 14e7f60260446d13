#!/bin/bash
# Measures between hosts that have ssh and a shared folder, without a launcher.
#   usage: ssh.sh SHARED-FOLDER MEASURING-HOST SERVING-HOST...
set -euo pipefail

[ $# -ge 3 ] || { echo "usage: $0 SHARED-FOLDER MEASURING-HOST SERVING-HOST..." >&2; exit 2; }
shared=$1
shift
# How a command is started on a host, and what is measured.
remote=${REMOTE:-ssh}
efa_bench=${EFA_BENCH:-efa-bench}
read -ra benchmark <<<"${BENCHMARK:-latency --fabric libfabric:efa}"

# Ranks of one run share a folder; another run has another one.
folder=$(mktemp -d "$shared/efa-bench-XXXXXX")
trap 'rm -rf "$folder"' EXIT

ranks=$#
rank=0
pids=()
for host in "$@"; do
  "$remote" "$host" "$efa_bench" run "${benchmark[@]}" --rendezvous "$folder" --rank "$rank" --ranks "$ranks" &
  pids+=($!)
  rank=$((rank + 1))
done

# Rank 0 says how it went; the others end with it.
status=0
for pid in "${pids[@]}"; do
  wait "$pid" || status=$?
done
exit "$status"
