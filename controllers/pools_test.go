package controllers

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/ipam"
)

// allowing is a pool that admits some Services.
func allowing(name string, allowed v1alpha1.AllowedServices) v1alpha1.IPPool {
	return v1alpha1.IPPool{Name: name, AllowedServices: &allowed}
}

func matching(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// TestPoolsOfAService names the pools that admit the Service team-a/web, labelled app=web, whose namespace is labelled team=a: the best first.
func TestPoolsOfAService(t *testing.T) {
	everybody := v1alpha1.IPPool{Name: "everybody"}
	for name, tc := range map[string]struct {
		pools []v1alpha1.IPPool
		want  []string
	}{
		"pools for everybody, in their order":      {[]v1alpha1.IPPool{everybody, {Name: "also"}}, []string{"everybody", "also"}},
		"by priority, the highest first":           {[]v1alpha1.IPPool{everybody, {Name: "low", Priority: 1}, {Name: "high", Priority: 10}}, []string{"high", "low", "everybody"}},
		"its namespace is named":                   {[]v1alpha1.IPPool{everybody, allowing("bound", v1alpha1.AllowedServices{Namespaces: []string{"other", "team-a"}})}, []string{"bound", "everybody"}},
		"another namespace is named":               {[]v1alpha1.IPPool{allowing("bound", v1alpha1.AllowedServices{Namespaces: []string{"other"}})}, nil},
		"its namespace is selected":                {[]v1alpha1.IPPool{allowing("bound", v1alpha1.AllowedServices{NamespaceSelector: matching("team", "a")})}, []string{"bound"}},
		"its namespace is named, not selected":     {[]v1alpha1.IPPool{allowing("bound", v1alpha1.AllowedServices{Namespaces: []string{"team-a"}, NamespaceSelector: matching("team", "b")})}, []string{"bound"}},
		"a selector that no namespace matches":     {[]v1alpha1.IPPool{allowing("closed", v1alpha1.AllowedServices{NamespaceSelector: matching("team", "nobody")})}, nil},
		"a selector of every namespace":            {[]v1alpha1.IPPool{allowing("bound", v1alpha1.AllowedServices{NamespaceSelector: &metav1.LabelSelector{}})}, []string{"bound"}},
		"it is selected":                           {[]v1alpha1.IPPool{allowing("bound", v1alpha1.AllowedServices{Selector: matching("app", "web")})}, []string{"bound"}},
		"its namespace is named, it is not chosen": {[]v1alpha1.IPPool{allowing("bound", v1alpha1.AllowedServices{Namespaces: []string{"team-a"}, Selector: matching("app", "db")})}, nil},
		"nothing is asked of it":                   {[]v1alpha1.IPPool{allowing("open", v1alpha1.AllowedServices{}), everybody}, []string{"open", "everybody"}},
		"bound pools go first, each by priority": {[]v1alpha1.IPPool{
			{Name: "for all", Priority: 100}, allowing("bound", v1alpha1.AllowedServices{Namespaces: []string{"team-a"}}),
			{Name: "bound better", Priority: 1, AllowedServices: &v1alpha1.AllowedServices{Namespaces: []string{"team-a"}}}},
			[]string{"bound better", "bound", "for all"}},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := admissionsOf(tc.pools)
			if err != nil {
				t.Fatal(err)
			}
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "web", Labels: map[string]string{"app": "web"}}}
			var got []string
			for _, i := range all.of(svc, labels.Set{"team": "a"}) {
				got = append(got, tc.pools[i].Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("pools (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASelectorThatCannotBeReadIsNamed(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: "Near"}}}
	_, err := admissionsOf([]v1alpha1.IPPool{{Name: "lan"}, allowing("bound", v1alpha1.AllowedServices{NamespaceSelector: bad})})
	want := `reading spec.ipPools[1].allowedServices.namespaceSelector: "Near" is not a valid label selector operator: ` +
		`mend the label or the operator, or leave namespaceSelector out`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestPoolTexts(t *testing.T) {
	got := poolTexts([]v1alpha1.IPPool{{
		Name: "lan", Addresses: []v1alpha1.AddressRange{"192.168.1.0/24"}, Exclude: []v1alpha1.ExcludedRange{"192.168.1.1"},
		Allocation:   v1alpha1.AllocationOnRequest,
		Reservations: []v1alpha1.Reservation{{Address: "192.168.1.2", Service: v1alpha1.ServiceReference{Namespace: "traefik", Name: "traefik"}}},
	}})
	want := []ipam.PoolText{{Name: "lan", Addresses: []string{"192.168.1.0/24"}, Exclude: []string{"192.168.1.1"}, Allocation: ipam.OnRequest,
		Reservations: []ipam.ReservationText{{Address: "192.168.1.2", For: "traefik/traefik"}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
}

// TestAnAddressCoolsWhenItWasGivenBack: the pool keeps its addresses for a minute.
func TestAnAddressCoolsWhenItWasGivenBack(t *testing.T) {
	pools := []v1alpha1.IPPool{{Name: "lan-pool", ReuseAfterSeconds: 60}}
	start := time.Unix(1_700_000_000, 0)
	after := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	has := request("web", holds("192.168.1.200"))
	var c cooling
	for _, step := range []struct {
		what     string
		at       time.Time
		requests []ipam.Request
		pools    []v1alpha1.IPPool
		want     []ipam.Cooling
		again    time.Duration
	}{
		{what: "a Service has it", at: start, requests: []ipam.Request{has}, pools: pools},
		{"it was given back", after(10), nil, pools, []ipam.Cooling{{Addr: netip.MustParseAddr("192.168.1.200"), Had: "default/web"}}, time.Minute},
		{"later", after(40), nil, pools, []ipam.Cooling{{Addr: netip.MustParseAddr("192.168.1.200"), Had: "default/web"}}, 30 * time.Second},
		{what: "the Service has it again", at: after(50), requests: []ipam.Request{has}, pools: pools},
		{"it was given back again", after(60), nil, pools, []ipam.Cooling{{Addr: netip.MustParseAddr("192.168.1.200"), Had: "default/web"}}, time.Minute},
		{what: "a minute is over", at: after(120), pools: pools},
		{what: "it does not come back", at: after(121), pools: pools},
		{what: "a Service has it once more", at: after(130), requests: []ipam.Request{has}, pools: pools},
		{what: "the pool keeps nothing any more", at: after(131), pools: []v1alpha1.IPPool{{Name: "lan-pool"}}},
	} {
		got, again := c.note(step.requests, step.pools, lanPool, step.at)
		if diff := cmp.Diff(step.want, got, compareAddr); diff != "" || again != step.again {
			t.Errorf("%s: kept (-want +got), for %v, want %v:\n%s", step.what, again, step.again, diff)
		}
	}
}

func TestWithheld(t *testing.T) {
	reports := []v1alpha1.NodeNetworking{
		nodeWith("w2", "eth0", "192.168.1.12/24", "fd00::12/64", "10.9.9.9/32", "10.9.9.2/31", "nonsense"),
		nodeWith("w1", "eth0", "192.168.1.11/24"),
	}
	reports[0].Status.Gateways, reports[1].Status.Gateways = []string{"192.168.1.1"}, []string{"192.168.1.1", "nonsense"}
	nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "w1"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24", "nonsense"}}}}
	single := func(text string) ipam.Range {
		a := netip.MustParseAddr(text)
		return ipam.Range{First: a, Last: a}
	}
	span := func(first, last string) ipam.Range {
		return ipam.Range{First: netip.MustParseAddr(first), Last: netip.MustParseAddr(last)}
	}
	want := []ipam.Withheld{
		{Range: span("10.244.1.0", "10.244.1.255"), Why: "in the pod network 10.244.1.0/24 of node w1"},
		{Range: span("10.96.0.0", "10.96.255.255"), Why: "in the network of ClusterIPs 10.96.0.0/16"},
		{Range: single("192.168.1.0"), Why: "the network address of 192.168.1.0/24"},
		{Range: single("192.168.1.1"), Why: "the router of node w1"},
		{Range: single("192.168.1.255"), Why: "the broadcast address of 192.168.1.0/24"},
		{Range: single("fd00::"), Why: "the address of all routers of fd00::/64"},
	}
	got := withheldFrom(reports, nodes, []string{"10.96.0.0/16"})
	if diff := cmp.Diff(want, got, compareAddr); diff != "" {
		t.Errorf("withheld (-want +got):\n%s", diff)
	}
	pools := []ipam.Pool{{Name: "wide", Ranges: []ipam.Range{span("192.168.1.200", "192.168.2.10"), span("10.244.0.0", "10.244.3.255")}}, lanPool[0]}
	wantSentences := []string{
		"pool wide never gives 10.244.1.0-10.244.1.255 (in the pod network 10.244.1.0/24 of node w1)",
		"pool wide never gives 192.168.1.255 (the broadcast address of 192.168.1.0/24)",
	}
	if diff := cmp.Diff(wantSentences, overlaps(pools, got)); diff != "" {
		t.Errorf("overlaps (-want +got):\n%s", diff)
	}
}

// TestLinks are the subnets in which the LAN can be asked about an address.
func TestLinks(t *testing.T) {
	up, down := nodeWith("w1", "eth0", "192.168.1.11/24", "nonsense", "fd00::11/64"), nodeWith("w2", "eth1", "10.0.0.1/24")
	up.Status.Interfaces[0].Carrier, down.Status.Interfaces[0].Carrier = v1alpha1.CarrierUp, v1alpha1.CarrierDown
	for name, tc := range map[string]struct {
		nodes []v1alpha1.NodeNetworking
		want  string
	}{
		"of interfaces with carrier, each once": {[]v1alpha1.NodeNetworking{up, down, up}, "192.168.1.0-192.168.1.255 fd00::-fd00::ffff:ffff:ffff:ffff"},
		"anywhere, while nobody has reported":   {nil, "0.0.0.0-255.255.255.255 ::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
		"nowhere, where no interface works":     {[]v1alpha1.NodeNetworking{down}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var texts []string
			for _, r := range linksOf(tc.nodes) {
				texts = append(texts, r.String())
			}
			if diff := cmp.Diff(tc.want, strings.Join(texts, " ")); diff != "" {
				t.Errorf("links (-want +got):\n%s", diff)
			}
		})
	}
}
