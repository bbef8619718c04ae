package endpoints

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// kubeconfig is kube-proxy's as kubeadm writes it.
func kubeconfig(server string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
    server: %s
  name: default
contexts:
- context:
    cluster: default
    namespace: default
    user: default
  name: default
current-context: default
users:
- name: default
  user:
    tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
`, server)
}

// serving is an EndpointSlice as API servers write it.
func serving(addresses ...string) discoveryv1.EndpointSlice {
	return discoveryv1.EndpointSlice{
		Endpoints: []discoveryv1.Endpoint{{Addresses: addresses, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
		Ports:     []discoveryv1.EndpointPort{{Name: new("https"), Port: new(int32(6443)), Protocol: new(corev1.ProtocolTCP)}},
	}
}

func service(clusterIP string) *corev1.Service {
	return &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: clusterIP, Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}}}}
}

func TestList(t *testing.T) {
	notReady := serving("192.168.1.127")
	notReady.Endpoints[0].Conditions.Ready = new(false)
	udp := serving("192.168.1.127")
	udp.Ports[0].Protocol = new(corev1.ProtocolUDP)
	type result struct {
		List    string
		Remarks []string
	}
	for name, tc := range map[string]struct {
		sources Sources
		want    result
	}{
		"one control plane of kubeadm: its address once, then the ClusterIP": {
			sources: Sources{
				Kubeconfig: kubeconfig("https://192.168.1.125:6443"), Slices: []discoveryv1.EndpointSlice{serving("192.168.1.125")}, Service: service("10.96.0.1")},
			want: result{List: "192.168.1.125:6443\n10.96.0.1:443\n"},
		},
		"several behind a name: the name, then each, by the number of its address": {
			sources: Sources{
				Kubeconfig: kubeconfig("https://k8s.example.com"), Service: service("10.96.0.1"),
				Slices: []discoveryv1.EndpointSlice{serving("192.168.1.127", "192.168.1.9"), serving("192.168.1.126", "192.168.1.9")}},
			want: result{List: "k8s.example.com:443\n192.168.1.9:6443\n192.168.1.126:6443\n192.168.1.127:6443\n10.96.0.1:443\n"},
		},
		"IPv6": {
			sources: Sources{
				Kubeconfig: kubeconfig("https://[fd00::125]:6443"), Slices: []discoveryv1.EndpointSlice{serving("fd00::126")}, Service: service("fd01::1")},
			want: result{List: "[fd00::125]:6443\n[fd00::126]:6443\n[fd01::1]:443\n"},
		},
		"no kube-proxy: the others": {
			sources: Sources{Slices: []discoveryv1.EndpointSlice{serving("192.168.1.125")}, Service: service("10.96.0.1")},
			want:    result{List: "192.168.1.125:6443\n10.96.0.1:443\n"},
		},
		"what is not ready, or not TCP, or no address is no API server": {
			sources: Sources{Slices: []discoveryv1.EndpointSlice{notReady, udp, serving("k8s.example.com"), serving("192.168.1.125")}, Service: service("None")},
			want:    result{List: "192.168.1.125:6443\n"},
		},
		"while the last API server restarts and serves nobody, its address is kept": {
			sources: Sources{Service: service("10.96.0.1"), Listed: []Endpoint{{"192.168.1.125", 6443}, {"10.96.0.1", 443}}},
			want:    result{List: "192.168.1.125:6443\n10.96.0.1:443\n"},
		},
		"while one is left, those that went are not kept": {
			sources: Sources{Slices: []discoveryv1.EndpointSlice{serving("192.168.1.126")}, Listed: []Endpoint{{"192.168.1.125", 6443}}},
			want:    result{List: "192.168.1.126:6443\n"},
		},
		"more control planes than can be tried leave room for the ClusterIP": {
			sources: Sources{Slices: []discoveryv1.EndpointSlice{serving("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7",
				"10.0.0.8", "10.0.0.9")}, Service: service("10.96.0.1")},
			want: result{List: "10.0.0.1:6443\n10.0.0.2:6443\n10.0.0.3:6443\n10.0.0.4:6443\n10.0.0.5:6443\n10.0.0.6:6443\n10.0.0.7:6443\n10.0.0.8:6443\n10.96.0.1:443\n"},
		},
		"a kubeconfig that is none": {
			sources: Sources{Kubeconfig: "secret", Service: service("10.96.0.1")},
			want: result{List: "10.96.0.1:443\n",
				Remarks: []string{"kube-proxy's own API server is left out: its kubeconfig is no valid YAML of that kind"}},
		},
		"a kubeconfig without a context": {
			sources: Sources{Kubeconfig: "apiVersion: v1\nkind: Config\ncurrent-context: gone\n", Service: service("10.96.0.1")},
			want: result{List: "10.96.0.1:443\n",
				Remarks: []string{`kube-proxy's own API server is left out: its kubeconfig's current-context "gone" names no cluster`}},
		},
		"a proxy with a path is no API server, and its password is nobody's business": {
			sources: Sources{Kubeconfig: kubeconfig("https://me:secret@rancher.example.com/k8s/clusters/c-1"), Service: service("10.96.0.1")},
			want: result{List: "10.96.0.1:443\n", Remarks: []string{
				`kube-proxy's own API server is left out: the server "https://me:xxxxx@rancher.example.com/k8s/clusters/c-1" is not of the form https://host:port`}},
		},
		"nothing is known": {},
	} {
		t.Run(name, func(t *testing.T) {
			list, remarks := List(tc.sources)
			if diff := cmp.Diff(tc.want, result{List: Format(list), Remarks: remarks}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again := tc.sources
			again.Listed = list
			if unchanged, _ := List(again); Format(unchanged) != Format(list) {
				t.Errorf("with the list in place it becomes another one: %v", unchanged)
			}
		})
	}
}
