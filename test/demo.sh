#!/usr/bin/env bash
# The tutorial on a lab cluster, with one object: narrated with the commands that a person would type on the workstation k8s-ops.
# Usage: demo.sh LAB-PROGRAM LAB-NAME. It leaves the cluster up.
set -euo pipefail
lab=$1 name=$2
cd "$(dirname "$0")/.."

ops() { "$lab" --name "$name" exec k8s-ops -- "$@"; }
say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
# type shows a command as it would be typed, then runs it on the workstation.
type() { printf '\033[1m$ %s\033[0m\n' "$*"; ops bash -c "$*"; }
# await runs a check until it holds, for at most a number of seconds.
await() {
  local what=$1 limit=$2 end
  shift 2
  end=$((SECONDS + limit))
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS >= end)); then
      echo "demo: waited $limit s in vain for: $what" >&2
      ops kubectl describe clusternetworking cluster >&2 || true
      exit 1
    fi
    sleep 0.2
  done
}
has_ip() { [[ $(ops kubectl get service "$1" -o 'jsonpath={.status.loadBalancer.ingress[0].ip}') == "$2" ]]; }
pending() { [[ $(ops kubectl get service "$1" -o 'jsonpath={.spec.type}{.status.loadBalancer.ingress}') == LoadBalancer ]]; }
is_ready() { [[ $(ops kubectl get clusternetworking cluster -o 'jsonpath={.status.observedGeneration}{.status.conditions[?(@.type=="Ready")].status}') == "$(ops kubectl get clusternetworking cluster -o 'jsonpath={.metadata.generation}')True" ]]; }
answers() { ops curl --silent --fail --max-time 1 "http://$1"; }

say "Start from nothing: whatever an earlier demo left in the cluster goes."
ops test/reset.sh dist/install.yaml >/dev/null

say "The cluster, as kubeadm makes it. kube-proxy's mode is left open:"
type "kubectl get nodes -o wide"
type "kubectl -n kube-system get configmap kube-proxy -o jsonpath='{.data.config\.conf}' | grep mode"

say "A web server, and a Service of type LoadBalancer for it. Nobody gives out addresses here: it stays <pending>."
type "kubectl create deployment lb-test --image=nginx:1.22"
type "kubectl expose deployment lb-test --type=LoadBalancer --port=80"
type "kubectl rollout status deployment lb-test --timeout=60s"
await "a Service without an address" 10 pending lb-test
type "kubectl get service lb-test"

say "Install Lanyard."
"$lab" --name "$name" load dist/lanyard.tar
type "kubectl apply --server-side -f dist/install.yaml"
type "kubectl -n lanyard-system rollout status deployment lanyard-manager --timeout=120s"

say "One object says what the network should be: the tutorial's eleven addresses."
type "cat config/samples/tutorial.yaml"
type "kubectl apply -f config/samples/tutorial.yaml"
await "192.168.1.200 for lb-test" 60 has_ip lb-test 192.168.1.200
await "the network to be Ready" 120 is_ready
type "kubectl get service lb-test"

say "From k8s-ops, which is not a node:"
await "the page at 192.168.1.200" 30 answers 192.168.1.200
type "curl -s http://192.168.1.200 | head -n 4"

say "What Lanyard says of itself:"
type "kubectl get clusternetworking"
type "kubectl describe clusternetworking cluster"

say "The same object with kube-proxy in mode nftables. The ConfigMap is edited, and one node after the other restarts its kube-proxy."
type "kubectl apply -f config/samples/tutorial-nftables.yaml"
await "kube-proxy in mode nftables on every node" 180 is_ready
type "kubectl get clusternetworking"
type "kubectl -n kube-system get configmap kube-proxy -o jsonpath='{.data.config\.conf}' | grep mode"
await "the page at 192.168.1.200" 30 answers 192.168.1.200
type "curl -s http://192.168.1.200 | head -n 4"

say "Deleting the Service frees .200, and the next Service gets it."
type "kubectl delete service lb-test"
type "kubectl expose deployment lb-test --name=lb-next --type=LoadBalancer --port=80"
await "192.168.1.200 for lb-next" 30 has_ip lb-next 192.168.1.200
type "kubectl get service lb-next"
await "the page at 192.168.1.200" 30 answers 192.168.1.200
type "curl -s http://192.168.1.200 | head -n 4"

say "That is the tutorial. The cluster stays up: look around with"
printf '  %s exec k8s-ops -- kubectl describe clusternetworking cluster\n' "bin/lab"
printf '  make lab-down      when you have seen enough\n'
