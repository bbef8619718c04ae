#!/usr/bin/env bash
# Proves that a lab leaves nothing behind, however it ends, and that `up` mends what was cut off half way. It uses a lab of its own, with
# one node, and checks that other labs on this machine are not touched.
# Usage: leftovers.sh LAB-PROGRAM [--uml-nodes 1], as root, with a warm cache. It takes four to eight minutes, and gives up after 40 at the
# latest. When it fails, it leaves the lab as it is.
set -euo pipefail
export LC_ALL=C
lab=$(realpath "$1")
more=("${@:2}") # nodes that the lab has besides
name=leftovers
node=k8s-cp-01
cache=$(realpath -m "${XDG_CACHE_HOME:-$HOME/.cache}/lanyard")
state=$cache/labs/$name
log=$(mktemp)
trap 'rm -f "$log"' EXIT
unset LANYARD_LAB

now() { echo $((${EPOCHREALTIME/./} / 1000)); } # milliseconds
began=$(now)
since=$began
# ok reports what was just shown, with the seconds that it took.
ok() {
  local t
  t=$(($(now) - since))
  printf 'ok   %4d.%d s  %s\n' $((t / 1000)) $((t % 1000 / 100)) "$*"
  since=$(now)
}
fail() {
  printf 'FAIL           %s\n' "$1"
  shift
  (($# == 0)) || printf '  %s\n' "$@"
  printf '%s\n' "what the lab program said last:" "$(tail -n 20 "$log")" \
    "To look: $lab --name $name status; $lab --name $name leftovers; tail $state/nodes/$node/*.log" \
    "To clean up: $lab --name $name down"
  exit 1
}
# run runs the lab program for at most a number of seconds.
run() {
  local limit=$1
  shift
  timeout --kill-after=5 "$limit" "$lab" --name "$name" "$@" >"$log" 2>&1 || fail "lab $* (limit $limit s)"
}
# await polls until something holds, for at most a number of seconds.
await() {
  local what=$1 end=$(($(now) + 1000 * $2))
  shift 2
  until "$@"; do
    (($(now) < end)) || fail "waited in vain for: $what"
    sleep 0.05
  done
}

# The script's own view of what is left, which shares nothing with that of the lab program. Among processes it looks for those of the lab,
# by where they are and how they were called, and for those of other labs that hold on to a network of this one.
left() {
  ip netns list | awk -v n="$name." 'index($1, n) == 1 {print "network namespace " $1}'
  find /sys/fs/cgroup -type d -path "*/lanyard-lab/$name*" -prune -printf 'cgroup %p\n' 2>/dev/null
  grep -F " $state/" /proc/mounts | sed 's/^/mount /' || true
  grep -lsE " $state/| /run/netns/$name\.|/lanyard-lab/$name/" /proc/[0-9]*/{mountinfo,cgroup} | sed 's/^/process in /' || true
  grep -lsFf <(echo "$state/") /proc/[0-9]*/cmdline | sed 's/^/process called as in /' || true # -f: grep must not find itself
  [[ ! -e $state ]] || echo "state folder $state"
}
# started returns when a process started, in the kernel's ticks; nothing when it has ended.
started() {
  local stat
  read -r stat 2>/dev/null <"/proc/$1/stat" || return 0
  # shellcheck disable=SC2086 # one word for each field
  set -- ${stat##*) }
  [[ $1 == [ZX] ]] || echo "${20}"
}
# others identifies the processes, networks and cgroups of all other labs.
others() {
  local pidfile pid other
  for pidfile in "$cache"/labs/*/nodes/*/pid; do
    [[ -e $pidfile && $pidfile != "$state"/* ]] || continue
    read -r pid _ <"$pidfile" || true
    echo "$pidfile: $(<"$pidfile"), runs since: $(started "$pid")"
  done
  for other in /run/netns/*.*; do
    [[ -e $other && $other != "/run/netns/$name."* ]] || continue
    echo "$other: $(stat -L -c %i "$other") $(ip -n "${other##*/}" -brief link show type veth | awk '$1 ~ /^(eth0|v-)/ {print $1, $2, $3}' | tr '\n' ';')"
  done
  find /sys/fs/cgroup -mindepth 4 -maxdepth 4 -type d -path '*/lanyard-lab/*/*' ! -path "*/lanyard-lab/$name/*" -printf '%p %i\n' 2>/dev/null | sort
}
# changed shows how two texts differ.
changed() { diff -U0 <(echo "$1") <(echo "$2") | tail -n +3; }
clean() {
  local found
  found=$(timeout 20 "$lab" --name "$name" leftovers 2>&1) || fail "after $1, lab leftovers finds something" "$found"
  [[ -z $found ]] || fail "after $1, lab leftovers prints something" "$found"
  found=$(left)
  [[ -z $found ]] || fail "after $1, something is left" "$found"
  found=$(others)
  [[ $found == "$others_before" ]] || fail "after $1, another lab has changed (- before, + now)" "$(changed "$others_before" "$found")"
  ok "$1: nothing is left${others_before:+, and other labs are as they were}"
}
# identities lists the node's long-lived processes, each by number and start.
identities() {
  local pid comm
  for pid in $(ip netns pids "$name.$node" 2>/dev/null); do
    read -r comm 2>/dev/null <"/proc/$pid/comm" || continue
    [[ $comm =~ ^(lab|containerd|containerd-shim|kubelet|etcd|kube-.*|pause)$ ]] || continue
    echo "$comm $pid $(started "$pid")"
  done | sort
}
runs() { [[ $(identities) == *"$1 "* ]]; }
said() { grep -qF "$1" "$log"; }
ready() {
  local conditions format='jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{end}'
  conditions=$(timeout 20 "$lab" --name "$name" exec k8s-ops -- kubectl get nodes -o "$format") || true
  [[ $conditions =~ ^(True)+$ ]] || fail "$1: the nodes are not all Ready, but '$conditions'"
}
# cut_off starts `up` and kills it when a condition holds.
cut_off() {
  local when=$1 up
  shift
  "$lab" --name "$name" up --nodes 1 "${more[@]}" >"$log" 2>&1 &
  up=$!
  await "$when, to kill up there" 180 "$@"
  kill -KILL "$up" 2>/dev/null || fail "up ended before it could be killed: $when"
  wait "$up" 2>/dev/null || true
  ok "up, killed: $when"
}
# kill_all kills every process that belongs to the lab.
kill_all() {
  local namespace pids
  [[ -n $(identities) ]] || fail "there is nothing to kill"
  pids=$(for namespace in /run/netns/"$name".*; do ip netns pids "${namespace##*/}"; done)
  # shellcheck disable=SC2086 # one word for each process; those of one PID namespace die with the first
  kill -KILL $pids 2>/dev/null || true
  gone() { [[ -z $(identities) ]]; }
  await "the end of the lab's processes" 20 gone
  ok "every process of the lab is killed"
}

((EUID == 0)) || fail "a lab needs root"
run 120 down
others_before=$(others)
clean "down of whatever an earlier run left"

run 600 up --nodes 1 "${more[@]}"
ready up
ok "up"
before=$(identities)
since=$(now)
run 60 up
took=$(($(now) - since))
after=$(identities)
[[ -n $before && $before == "$after" ]] || fail "the second up has changed processes (- before, + now)" "$(changed "$before" "$after")"
((took < 20000)) || fail "the second up took $took ms: it should find that there is nothing to do"
ok "up again, in $took ms: the same $(wc -l <<<"$after") processes run"

run 60 down
clean "down"
run 60 down
clean "down again"

cut_off "the node's first process runs" runs lab
run 60 down
clean "down"

cut_off "kubeadm has started the API server" runs kube-apiserver
run 60 down
clean "down"

cut_off "kubeadm has started the API server" runs kube-apiserver
run 600 up
ready "up after up was killed"
ok "up mends a lab whose up was killed"
kill_all
run 600 up
ready "up after all was killed"
ok "up mends a lab whose processes were all killed"
kill_all
run 60 down
clean "down of a dead lab"

printf 'a lab leaves nothing behind: all shown in %d s\n' $((($(now) - began) / 1000))
