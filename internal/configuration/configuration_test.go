package configuration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
)

// document is what the ConfigMap holds for the tutorial's cluster. A speaker of one version reads what a manager of another wrote: a change
// here is a change of their contract.
const document = `generation: 3
ipPools:
- addresses:
  - 192.168.1.200-192.168.1.210
  - fd00::/120
  name: lan-pool
l2Advertisements:
- interfaces:
  - eth0
  - bond*
  ipPools:
  - lan-pool
  name: lan-l2
  nodeSelector:
    matchLabels:
      rack: "1"
`

func TestADocumentIsWhatWasAskedFor(t *testing.T) {
	cnet := &v1alpha1.ClusterNetworking{ObjectMeta: metav1.ObjectMeta{Name: "cluster", Generation: 3}}
	cnet.Spec.IPPools = []v1alpha1.IPPool{{Name: "lan-pool", Addresses: []v1alpha1.AddressRange{"192.168.1.200-192.168.1.210", "fd00::/120"},
		Allocation: v1alpha1.AllocationAutomatic}} // which the API server fills in
	cnet.Spec.L2Advertisements = []v1alpha1.L2Advertisement{{
		Name: "lan-l2", IPPools: []string{"lan-pool"}, Interfaces: []string{"eth0", "bond*"},
		NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"rack": "1"}},
	}}
	asked := FromObject(cnet)
	doc, err := asked.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document, doc); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	read, err := Decode(doc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asked, read); diff != "" {
		t.Errorf("what a speaker reads (-want +got):\n%s", diff)
	}
}

// TestWhatOlderSpeakersDoNotKnowIsLeftOutUnlessAskedFor: they refuse a field that they do not know.
func TestWhatOlderSpeakersDoNotKnowIsLeftOutUnlessAskedFor(t *testing.T) {
	for asked, want := range map[v1alpha1.MarkPodsNotReady]string{
		"":                                "generation: 0\n",
		v1alpha1.MarkPodsNotReadyDisabled: "generation: 0\n",
		v1alpha1.MarkPodsNotReadyEnabled:  "failureDetection:\n  markPodsNotReady: Enabled\ngeneration: 0\n",
	} {
		cnet := &v1alpha1.ClusterNetworking{}
		cnet.Spec.FailureDetection.MarkPodsNotReady = asked
		doc, err := FromObject(cnet).Encode()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, doc); diff != "" {
			t.Errorf("%q: document (-want +got):\n%s", asked, diff)
		}
	}
}

// TestWhereKubeProxyIsAskedStandsThereWhenItIsNotTheDefault.
func TestWhereKubeProxyIsAskedStandsThereWhenItIsNotTheDefault(t *testing.T) {
	asked := Configuration{Generation: 3, KubeProxyMetricsAddress: "127.0.0.1:20249"}
	doc, err := asked.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("generation: 3\nkubeProxyMetricsAddress: 127.0.0.1:20249\n", doc); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	read, err := Decode(doc)
	if diff := cmp.Diff(asked, read); diff != "" || err != nil {
		t.Errorf("error is %v, what a speaker reads (-want +got):\n%s", err, diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ doc, wantErr string }{
		"a field of a newer manager":            {doc: document + "bgpPeers: []\n", wantErr: `unknown field "bgpPeers"`},
		"a field of a newer manager in a pool":  {doc: strings.Replace(document, "  name: lan-pool", "  name: lan-pool\n  shade: 1", 1), wantErr: `unknown field "shade"`},
		"a field that stands twice":             {doc: "generation: 3\ngeneration: 4\n", wantErr: `"generation" already set`},
		"a value of another kind":               {doc: "generation: three\n", wantErr: "cannot unmarshal string"},
		"a document that was cut off in a text": {doc: `ipPools: [{name: "lan`, wantErr: "yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Decode(tc.doc)
			if err == nil || !strings.HasPrefix(err.Error(), "decoding the configuration: ") || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("error is %v, want one with %s", err, tc.wantErr)
			}
			if diff := cmp.Diff(Configuration{}, c); diff != "" {
				t.Errorf("half of it was read (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFromConfigMap: what cannot be read is named with its place.
func TestFromConfigMap(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "lanyard-system", Name: "lanyard-configuration"}}
	cm.Data = map[string]string{"configuration.yaml": "generation: 3"}
	got, err := FromConfigMap(cm)
	if diff := cmp.Diff(Configuration{Generation: 3}, got); diff != "" || err != nil {
		t.Errorf("error is %v, configuration (-want +got):\n%s", err, diff)
	}
	cm.Data = map[string]string{"configuration.yaml": "fromTheFuture: true"}
	const place = "reading ConfigMap lanyard-system/lanyard-configuration: decoding the configuration: "
	if _, err := FromConfigMap(cm); err == nil || !strings.HasPrefix(err.Error(), place) {
		t.Errorf("error is %v, want one that begins with %s", err, place)
	}
}

// FuzzDecode: what can be read can be written, and reads the same again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{document, "", "{}", "generation: -1", "ipPools: [{}]", "l2Advertisements: [{nodeSelector: {}}]", "- a", "&a [*a]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		read, err := Decode(doc)
		if err != nil {
			return
		}
		again, err := read.Encode()
		if err != nil {
			t.Fatal(err)
		}
		twice, err := Decode(again)
		if err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if diff := cmp.Diff(read, twice, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("read twice (-first +second):\n%s", diff)
		}
	})
}
