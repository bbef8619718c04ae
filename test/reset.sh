#!/usr/bin/env bash
# Takes whatever Lanyard and the tutorial left out of a cluster, and gives kube-proxy back the open mode that kubeadm gave it.
# Usage, on the workstation: reset.sh INSTALL.yaml
set -euo pipefail
install=$1

kubectl delete service,deployment lb-test lb-next --ignore-not-found
if kubectl get crd clusternetworkings.networking.lanyard.dev --ignore-not-found | grep -q .; then
  kubectl delete clusternetworking --all
fi
kubectl delete -f "$install" --ignore-not-found --timeout=120s

config=$(kubectl -n kube-system get configmap kube-proxy -o yaml)
open=$(sed -E 's/^    mode: .*/    mode: ""/; s/^(      )strictARP: true/\1strictARP: false/' <<<"$config")
if [[ $open != "$config" ]]; then
  kubectl replace -f - <<<"$open"
  kubectl -n kube-system rollout restart daemonset kube-proxy
fi
kubectl -n kube-system rollout status daemonset kube-proxy --timeout=120s
