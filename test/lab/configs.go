package main

import "fmt"

// containerdConfig is containerd's configuration on every node. The OOM score adjustment is restricted because the lab may run without
// CAP_SYS_RESOURCE, which runc needs to lower it.
func containerdConfig() string {
	return `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "registry.k8s.io/pause:` + pauseTag + `"

[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ["/opt/cni/bin"]
  conf_dir = "/etc/cni/net.d"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = false
`
}

// cniConfig is the pod network of a node: a point-to-point link to each pod, with addresses from the node's range.
func cniConfig(h host, s stack) string {
	ranges, routes := fmt.Sprintf(`[{"subnet": %q}]`, h.pods), `{"dst": "0.0.0.0/0"}`
	if s == dualStack {
		ranges += fmt.Sprintf(`, [{"subnet": %q}]`, h.pods6())
		routes += `, {"dst": "::/0"}`
	}
	return fmt.Sprintf(`{
  "cniVersion": "1.0.0",
  "name": "lab",
  "plugins": [
    {
      "type": "ptp",
      "ipMasq": false,
      "ipam": {"type": "host-local", "ranges": [%s], "routes": [%s]}
    },
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, ranges, routes)
}

// kubeadmInit is the configuration that the cluster is made with. conntrack {0, 0} is a user's setting: nf_conntrack_max cannot be
// written from a network namespace.
func kubeadmInit(h host, token string, s stack) string {
	pods, services := podRange.String(), "10.96.0.0/12"
	if s == dualStack {
		pods, services = pods+","+podRange6.String(), services+","+serviceRange6.String()
	}
	return fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: %[1]s
  ttl: 0s
localAPIEndpoint:
  advertiseAddress: %[2]s
  bindPort: 6443
%[3]spatches:
  directory: /etc/kubernetes/patches
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: %[4]s
controlPlaneEndpoint: %[2]s:6443
networking:
  podSubnet: %[5]s
  serviceSubnet: %[6]s
controllerManager:
  extraArgs:
  # The pod ranges are given to the nodes by the lab.
  - name: allocate-node-cidrs
    value: "false"
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
conntrack:
  maxPerCore: 0
  min: 0
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
evictionHard:
  imagefs.available: 100Mi
  memory.available: 50Mi
  nodefs.available: 100Mi
  nodefs.inodesFree: 0%%
imageGCHighThresholdPercent: 100
`, token, h.addr, registration(h, s), kubernetesVersion, pods, services)
}

// kubeadmJoin is the configuration with which a worker joins.
func kubeadmJoin(h, cp host, token string, s stack) string {
	return fmt.Sprintf(`apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken:
    apiServerEndpoint: %s:6443
    token: %s
    # The LAN has no other hosts than the lab's.
    unsafeSkipCAVerification: true
%spatches:
  directory: /etc/kubernetes/patches
`, cp.addr, token, registration(h, s))
}

// registration is the part of kubeadm's configuration about the node. There are no taints: a small lab runs pods everywhere.
func registration(h host, s stack) string {
	addresses := h.addr.String()
	if s == dualStack {
		addresses += "," + h.addr6().String()
	}
	return fmt.Sprintf(`nodeRegistration:
  name: %s
  criSocket: unix:///run/containerd/containerd.sock
  taints: []
  ignorePreflightErrors: [all]
  kubeletExtraArgs:
  - name: node-ip
    value: %s
`, h.name, addresses)
}

// kubeletPatch puts the node's pods below the node's own cgroup.
func kubeletPatch(cgroup string) string {
	return fmt.Sprintf("{\"cgroupRoot\": \"/%s\"}\n", cgroup)
}
