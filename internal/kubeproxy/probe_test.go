package kubeproxy

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// probeSetup is the one of the tests.
var probeSetup = ProbeSetup{
	Namespace: "lanyard-system", Image: "registry.k8s.io/kube-proxy:v1.36.3", Kubeconfig: "kubeconfig",
	PullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, Deadline: progressDeadline,
	Env: []corev1.EnvVar{{Name: "NO_PROXY", Value: "10.0.0.0/8"}},
}

// candidate is what shadows try in the tests.
const candidate = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
bindAddress: 0.0.0.0
clientConnection: {kubeconfig: /elsewhere, qps: 7}
conntrack: {maxPerCore: 32768, tcpBeLiberal: yes}
kind: KubeProxyConfiguration
metricsBindAddress: 127.0.0.1:9999
mode: nftables # comments are not needed in a shadow
`

// TestProbeGolden compares the objects of each kind of probe with testdata/probes.
func TestProbeGolden(t *testing.T) {
	shadow := Probe{Kind: ProbeShadow, Node: "k8s-wl-01", Hash: Hash(candidate, probeSetup.Image), Mode: "nftables", Document: candidate}
	cm, err := probeSetup.ShadowConfigMap(shadow)
	if err != nil {
		t.Fatal(err)
	}
	survey := Probe{Kind: ProbeSurvey, Node: "k8s-wl-01", Hash: Hash("iptables", probeSetup.Image), Mode: "iptables"}
	for name, object := range map[string]any{
		"shadow-pod": probeSetup.Pod(shadow), "shadow-configmap": cm, "survey-pod": probeSetup.Pod(survey),
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := yaml.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			compareGolden(t, filepath.Join("testdata", "probes", name+".yaml"), string(encoded))
		})
	}
}

func TestAProbeIsFoundAgainByItsPod(t *testing.T) {
	for _, want := range []Probe{
		{Kind: ProbeShadow, Node: "k8s-wl-01", Hash: "0123456789", Mode: "ipvs"},
		{Kind: ProbeShadow, Node: strings.Repeat("n", 63) + "." + strings.Repeat("m", 60), Hash: "0123456789"},
		{Kind: ProbeSurvey, Node: "a.b", Hash: "0123456789", Mode: "iptables"},
	} {
		if diff := cmp.Diff(want, ProbeOf(probeSetup.Pod(want))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// Names of nodes can be longer than those of hosts, and have dots.
func TestPodNamesAreNamesOfHostsAndDiffer(t *testing.T) {
	long := strings.Repeat("rack-", 12)
	taken := map[string]Probe{}
	for _, node := range []string{"a", "a.b", "a-b", long + "1", long + "2", strings.Repeat("x", 253), "n" + strings.Repeat("-", 40) + "1"} {
		for _, kind := range []ProbeKind{ProbeShadow, ProbeSurvey} {
			for _, hash := range []string{"0123456789", "9876543210"} {
				p := Probe{Kind: kind, Node: node, Hash: hash}
				name := p.podName()
				if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
					t.Errorf("%q of node %q: %v", name, node, wrong)
				}
				if other, ok := taken[name]; ok {
					t.Errorf("%q is the name for %v and for %v", name, other, p)
				}
				taken[name] = p
			}
		}
	}
}

func TestSetupIsThatOfTheDaemonSet(t *testing.T) {
	ds := &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "sidecar", Image: "sidecar"},
		{Name: "kube-proxy", Image: "mirror/kube-proxy:v1.36.3", Command: []string{"/bin/kube-proxy", configFlag}, Env: []corev1.EnvVar{
			{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
			{Name: "KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK", Value: "1"},
		}},
	}}}}}
	cm := &corev1.ConfigMap{Data: map[string]string{ConfigKey: "config", KubeconfigKey: "kubeconfig"}}
	want := ProbeSetup{
		Namespace: "lanyard-system", Image: "mirror/kube-proxy:v1.36.3", Command: "/bin/kube-proxy", Kubeconfig: "kubeconfig",
		Env: []corev1.EnvVar{{Name: "KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK", Value: "1"}}, Deadline: time.Hour,
	}
	if diff := cmp.Diff(want, SetupOf("lanyard-system", ds, cm, nil, time.Hour)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAProbeKeepsItsPatience: how long its pod is waited for can be read from the pod, whatever the spec has become since.
func TestAProbeKeepsItsPatience(t *testing.T) {
	for _, deadline := range []time.Duration{time.Minute, 61 * time.Second, progressDeadline, 5 * time.Minute, time.Hour} {
		setup := probeSetup
		setup.Deadline = deadline
		pod := setup.Pod(Probe{Kind: ProbeSurvey, Node: "k8s-wl-01"})
		if got, want := patienceWith(pod), (patience{start: deadline, run: deadline / 2}); got != want {
			t.Errorf("with a probe of %v: %+v, want %+v", deadline, got, want)
		}
	}
}

// waiting is a pod with a container that waits for a reason.
func waiting(reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, StartTime: &metav1.Time{}, ContainerStatuses: []corev1.ContainerStatus{
		{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}}
}

func TestAProbeThatDoesNotStart(t *testing.T) {
	pull := waiting("ImagePullBackOff", "Back-off pulling image \"kube-proxy\":\n not found")
	for name, c := range map[string]struct {
		status   corev1.PodStatus
		starting time.Duration
		want     ProbeResult
	}{
		"is waited for while kubelet has not seen it": {corev1.PodStatus{Phase: corev1.PodPending}, time.Minute,
			ProbeResult{Message: "the probe starts (Pending: kubelet has not taken it up)"}},
		"fails when kubelet never takes it up": {corev1.PodStatus{Phase: corev1.PodPending}, progressDeadline,
			ProbeResult{State: ProbeFailed, Message: "the probe did not start within 2m0s (Pending: kubelet has not taken it up); " +
				"see `kubectl -n lanyard-system get events` for its pod; if the node is slow, raise spec.kubeProxy.rollout.progressDeadlineSeconds"}},
		"is waited for while its image is pulled again": {pull, time.Minute,
			ProbeResult{Message: `the probe starts (ImagePullBackOff: Back-off pulling image "kube-proxy": not found)`}},
		"fails when its image is not to be had": {pull, progressDeadline,
			ProbeResult{State: ProbeFailed, Message: `the probe did not start within 2m0s (ImagePullBackOff: Back-off pulling image "kube-proxy": ` +
				`not found); ` +
				"name a Secret to pull it with in spec.speaker.imagePullSecrets, or pull it on the node"}},
		"fails at once for an image that is no name": {waiting("InvalidImageName", "no"), 0,
			ProbeResult{State: ProbeFailed, Message: "the probe cannot start (InvalidImageName: no); mend the image of DaemonSet kube-system/kube-proxy"}},
		"fails when the node is full": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods",
			Message: "Node didn't have enough resource: pods"}, 0,
			ProbeResult{State: ProbeFailed, Message: "the node did not let the probe run (OutOfpods: Node didn't have enough resource: pods); " +
				"make room for one more pod there"}},
		"fails when the node evicts it": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory",
			ContainerStatuses: ended(137, "")}, 0,
			ProbeResult{State: ProbeFailed, Message: "the node did not let the probe run (Evicted: low on memory); make room for one more pod there"}},
		"fails when kubelet ended it, for no manager looked after it": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded",
			ContainerStatuses: ended(137, "")}, 0,
			ProbeResult{State: ProbeFailed, Message: "kubelet ended the probe, which took longer than 3m30s; see whether the node is overloaded"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []ProbeKind{ProbeShadow, ProbeSurvey} {
				probe := Probe{Kind: kind, Node: "k8s-wl-01", Hash: "0123456789", Mode: "ipvs"}
				pod := probeSetup.Pod(probe)
				pod.Status = c.status
				c.want.Key = probe.Key()
				got := JudgeShadow(ProbePod{Pod: pod, Starting: c.starting}, Answer{})
				if kind == ProbeSurvey {
					got = JudgeSurvey(ProbePod{Pod: pod, Starting: c.starting}, nil, nil)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind, diff)
				}
			}
		})
	}
}

// A refusal names no pod: the same trouble has the same words on each node.
func TestARefusedPodIsAResultWithARemedy(t *testing.T) {
	for name, c := range map[string]struct{ refusal, want string }{
		"pod security": {`pods "lanyard-shadow-a-0123456789" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`,
			`(violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)); ` +
				"run `kubectl label namespace lanyard-system pod-security.kubernetes.io/enforce=privileged --overwrite`"},
		"a quota": {`pods "lanyard-shadow-a-0123456789" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=3, limited: pods=3`,
			"(exceeded quota: pods, requested: pods=1, used: pods=3, limited: pods=3); raise the ResourceQuota there"},
		"a role": {`pods is forbidden: User "m" cannot create resource "pods" in API group "" in the namespace "lanyard-system"`,
			`(User "m" cannot create resource "pods" in API group "" in the namespace "lanyard-system"); apply Lanyard's roles again`},
		"a policy": {"admission webhook \"deny\" denied the request:\n no privileged pods",
			`(admission webhook "deny" denied the request: no privileged pods); find the admission policy, and let it admit pods of ServiceAccount ` +
				`lanyard-probe there`},
	} {
		t.Run(name, func(t *testing.T) {
			p := Probe{Kind: ProbeShadow, Node: "a", Hash: "0123456789"}
			want := ProbeResult{Key: p.Key(), State: ProbeFailed, Message: "the API server refused the probe's pod in namespace lanyard-system " + c.want}
			if diff := cmp.Diff(want, Refused(p, "lanyard-system", errors.New(c.refusal))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
