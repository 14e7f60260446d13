#!/usr/bin/env bash
# Tries a RoCE device of Soft-EFA with a foreign one: rxe (Soft-RoCE of the kernel) or a NIC.
#
#   host with Soft-EFA     examples/foreign-roce.sh soft ADDRESS
#   host with rxe or a NIC examples/foreign-roce.sh rdma ADDRESS [DEVICE [GID_INDEX]]
#
# ADDRESS is an IPv4 address of the first host, which the second one reaches. The first command serves, as root or with
# CAP_NET_RAW (rxe and NICs count the identification of IP headers up, which the ICRC covers); start it first. The second
# one runs the clients one by one. Both need perftest, ibverbs-utils and rdmacm-utils, and report the results at the end.
# GID_INDEX is that of the "RoCE v2" entry with an IPv4 address (ibv_devinfo -v; with rxe mostly 1).
#
# The second host makes an rxe device like this:   sudo rdma link add rxe0 type rxe netdev eth0
# A host whose kernel has rxe, or whose NIC has RoCE switched on, has port 4791 for itself and cannot be the first one.
set -u

port=18600
limit=120

# The trials: a name, and the program with its options; %DEVICE% is filled in, port and address follow.
trials='
rc-pingpong|ibv_rc_pingpong %DEVICE% -n 500 -s 4096
uc-pingpong|ibv_uc_pingpong %DEVICE% -n 500 -s 1024
ud-pingpong|ibv_ud_pingpong %DEVICE% -n 500 -s 1000
send|ib_send_lat %PERFTEST% -n 1000 -s 64
send-long|ib_send_bw %PERFTEST% -n 500 -s 65536
write|ib_write_bw %PERFTEST% -n 500 -s 65536
read|ib_read_bw %PERFTEST% -n 200 -s 65536
atomic|ib_atomic_lat %PERFTEST% -n 200
rdma-cm|rping'

usage() { sed -n '2,/^set/ { /^set/d; s/^# \{0,1\}//p }' "$0" >&2; exit 2; }

# Server or client number $1 with the command $2, at address $3 (nothing: a server).
words() {
  local number=$1 command=$2 address=${3-}
  command=${command//%DEVICE%/-d $device -g $gid}
  command=${command//%PERFTEST%/-d $device -x $gid -F}
  if [ "$command" = rping ]; then
    [ -n "$address" ] && echo "rping -c -V -C 20 -S 3000 -a $address -p $number" ||
      echo "rping -s -V -C 20 -S 3000 -a $own -p $number"
  else
    echo "$command -p $number $address"
  fi
}

# Every trial: its name and the end of what it printed, if it failed.
report() {
  local status=0 name
  for name in "${names[@]}"; do
    if [ "${codes[$name]}" = 0 ]; then
      echo "ok      $name"
    else
      echo "FAILED  $name (exit code ${codes[$name]})"
      tail -n 3 "$logs/$name" | sed 's/^/        /'
      status=1
    fi
  done
  return $status
}

# Waits for the program of a trial.
outcome() {
  wait "${pids[$1]}"
  codes[$1]=$?
  unset "pids[$1]"
}

soft() {
  own=$1 device=roce0 gid=0
  local softefa=${SOFTEFA:-softefa} number=$port name command
  command -v "$softefa" >/dev/null || { echo "softefa is not in PATH; set SOFTEFA=FILE" >&2; exit 2; }
  "$softefa" gateway --address "$own" --stats &
  pids[gateway]=$!
  sleep 1
  kill -0 "${pids[gateway]}" 2>/dev/null || exit 1
  logs=$(mktemp -d)
  while IFS='|' read -r name command; do
    [ -n "$name" ] || continue
    names+=("$name")
    # shellcheck disable=SC2046 # words, on purpose
    timeout "$((limit * 4))" "$softefa" run --device "roce0=$own,profile=roce,gateway=4791" -- \
      $(words "$number" "$command") >"$logs/$name" 2>&1 &
    pids[$name]=$!
    number=$((number + 1))
  done <<<"$trials"
  echo "waiting for: examples/foreign-roce.sh rdma $own"
  for name in "${names[@]}"; do
    outcome "$name"
  done
  report
}

rdma() {
  local address=$1 number=$port name command
  device=${2:-$(ibv_devices | awk 'NR > 2 { print $1; exit }')} gid=${3:-1}
  [ -n "$device" ] || { echo "no RDMA device here; sudo rdma link add rxe0 type rxe netdev eth0" >&2; exit 2; }
  logs=$(mktemp -d)
  while IFS='|' read -r name command; do
    [ -n "$name" ] || continue
    names+=("$name")
    # shellcheck disable=SC2046 # words, on purpose
    timeout "$limit" $(words "$number" "$command" "$address") >"$logs/$name" 2>&1 &
    pids[$name]=$!
    outcome "$name"
    number=$((number + 1))
  done <<<"$trials"
  report
}

[ $# -ge 2 ] || usage
declare -A codes=() pids=()
names=()
# Ctrl-C reaches neither what runs in the background nor what timeout starts.
trap 'kill "${pids[@]}" 2>/dev/null; wait' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
case $1 in
  soft) soft "$2" ;;
  rdma) rdma "$2" "${3-}" "${4-}" ;;
  *) usage ;;
esac
status=$?
echo "what the programs printed: $logs"
exit "$status"
