package laststate

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// full is a state with something of each kind.
func full() State {
	svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "lanyard", Subresource: "status", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)}}}}
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.168.1.200"}}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w1", Labels: map[string]string{"rack": "1"}}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.1.7"}}
	return State{
		Origin: Origin{Node: "w1", Cluster: "a"}, AsOf: metav1.NewTime(time.Date(2026, 12, 2, 20, 0, 0, 0, time.UTC)), Speakers: []string{"w2"},
		Services: []corev1.Service{svc}, Nodes: []corev1.Node{node},
		EndpointSlices: []discoveryv1.EndpointSlice{{Endpoints: []discoveryv1.Endpoint{{NodeName: ptr.To("w1")}}}},
		Configurations: []corev1.ConfigMap{{Data: map[string]string{"configuration.yaml": "generation: 7"}}},
	}
}

func encoded(t *testing.T, s State) []byte {
	t.Helper()
	text, err := Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDecodeReadsWhatEncodeWrote(t *testing.T) {
	for name, s := range map[string]State{"nothing": {}, "something of each kind": full()} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(encoded(t, s))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s, got, cmp.Comparer(func(a, b metav1.FieldsV1) bool { return a.GetRawString() == b.GetRawString() })); diff != "" {
				t.Errorf("what was read (-want +got):\n%s", diff)
			}
		})
	}
}

// sealed is a document with the line that belongs to it.
func sealed(version int, document string) []byte {
	return fmt.Appendf(nil, "lanyard-speaker-state %d sha256:%x\n%s", version, sha256.Sum256([]byte(document)), document)
}

func TestDecodeRefuses(t *testing.T) {
	good := encoded(t, full())
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, tc := range map[string]struct {
		text []byte
		want string
	}{
		"an empty file":                     {want: "it does not begin as a speaker's state does"},
		"something else":                    {text: []byte("{}\n"), want: "it does not begin as a speaker's state does"},
		"a file that was cut off":           {text: good[:len(good)-1], want: "its checksum is not that of its content: it was cut off, or changed"},
		"a file that was cut off early":     {text: good[:len("lanyard-speaker-state 1 sha")], want: "its checksum is not that of its content: it was cut off, or changed"},
		"a file with more at its end":       {text: append(bytes.Clone(good), '\n'), want: "its checksum is not that of its content: it was cut off, or changed"},
		"a file in which a bit has flipped": {text: flipped, want: "its checksum is not that of its content: it was cut off, or changed"},
		"an older program's":                {text: sealed(0, "{}"), want: "it is of version 0, and this program reads version 1"},
		"a newer program's":                 {text: sealed(2, "{}"), want: "it is of version 2, and this program reads version 1"},
		"a document that is none":           {text: sealed(1, "{"), want: "decoding the state: unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Decode(tc.text)
			if err == nil || err.Error() != tc.want {
				t.Errorf("error is %v, want %s", err, tc.want)
			}
			if diff := cmp.Diff(State{}, s); diff != "" {
				t.Errorf("what was read all the same (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzDecode: whatever lies on the disk, it is refused, or it is a state that reads the same once it is written again.
func FuzzDecode(f *testing.F) {
	good, err := Encode(full())
	if err != nil {
		f.Fatal(err)
	}
	document := good[bytes.IndexByte(good, '\n')+1:]
	for _, seed := range [][]byte{nil, good, document, []byte("{}"), []byte("null"), []byte(strings.Repeat("[", 1000)), []byte(`{"asOf":"9999-12-31T23:59:59-23:00"}`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, file := range [][]byte{text, sealed(version, string(text))} { // the second gets past the checksum
			s, err := Decode(file)
			if err != nil {
				continue
			}
			again := encoded(t, s)
			if s, err = Decode(again); err != nil {
				continue // a time after the year 9999, which is written as nobody reads it
			}
			if diff := cmp.Diff(string(again), string(encoded(t, s))); diff != "" {
				t.Errorf("it reads as another state the second time (-first +second):\n%s", diff)
			}
		}
	})
}
