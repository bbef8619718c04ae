package speaker

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ipvsTable is a kernel's /proc/net/ip_vs: two Services of kube-proxy's, one of keepalived's by a mark.
const ipvsTable = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A600001:01BB rr
  -> C0A8017D:192B      Masq    1      0          0
UDP  [fd00:0000:0000:0000:0000:0000:0000:000a]:0035 rr
FWM  00000001 wlc
`

// procWith is a /proc with these settings of IPv4; each of all's is 0 unless it is among them.
func procWith(settings map[string]string) fstest.MapFS {
	proc := fstest.MapFS{}
	for _, name := range oneWay {
		proc["sys/net/ipv4/conf/all/"+name] = &fstest.MapFile{Data: []byte("0\n")}
	}
	for path, value := range settings {
		proc["sys/net/ipv4/conf/"+path] = &fstest.MapFile{Data: []byte(value + "\n")}
	}
	return proc
}

func TestLookAtKernel(t *testing.T) {
	broken := errors.New("no netlink here")
	const noLink = -1
	quiet := map[string]string{"eth0/arp_ignore": "1", "eth1/arp_ignore": "0"}
	withTable := procWith(quiet)
	withTable["net/ip_vs"] = &fstest.MapFile{Data: []byte(ipvsTable)}
	for name, tc := range map[string]struct {
		proc    fs.FS
		link    int
		linkErr error
		want    kernel
		wantErr string
	}{
		"kube-proxy has turned nothing on": {proc: procWith(map[string]string{"eth0/arp_ignore": "0", "eth1/arp_ignore": "0"}), link: noLink,
			want: kernel{linkAddresses: noLink, answering: []string{"eth0", "eth1"}}},
		"one interface was made quiet by hand": {proc: procWith(quiet), link: noLink,
			want: kernel{linkAddresses: noLink, answering: []string{"eth1"}}},
		"all are made quiet": {
			proc: procWith(map[string]string{"all/arp_ignore": "1", "all/arp_announce": "2", "eth0/arp_ignore": "0", "eth1/arp_ignore": "0"}), link: 3,
			want: kernel{linkAddresses: 3, sysctls: map[string]string{"net.ipv4.conf.all.arp_ignore": "1", "net.ipv4.conf.all.arp_announce": "2"}}},
		"mode iptables": {proc: procWith(map[string]string{"all/route_localnet": "1", "all/arp_ignore": "2"}), link: noLink,
			want: kernel{linkAddresses: noLink, sysctls: map[string]string{"net.ipv4.conf.all.arp_ignore": "2", "net.ipv4.conf.all.route_localnet": "1"}}},
		"an interface has just gone": {proc: procWith(map[string]string{"eth0/arp_ignore": "0"}), link: noLink,
			want: kernel{linkAddresses: noLink, answering: []string{"eth0"}}},
		"there are IPVS services": {proc: withTable, link: 0, want: kernel{answering: []string{"eth1"},
			virtual: []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::a")}}},
		"the link cannot be read": {proc: procWith(nil), linkErr: broken, wantErr: "reading the addresses of kube-ipvs0: no netlink here"},
		"the settings cannot be read": {proc: fstest.MapFS{}, link: noLink,
			wantErr: "reading net.ipv4.conf.all.arp_announce: open sys/net/ipv4/conf/all/arp_announce: file does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := lookAtKernel(tc.proc, func() (int, error) { return tc.link, tc.linkErr }, []string{"eth1", "eth0"})
			if said := fmt.Sprint(err); err != nil && said != tc.wantErr || err == nil && tc.wantErr != "" {
				t.Errorf("error is %v, want %s", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(kernel{}), compareValues, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("kernel (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheNodesOwnKernelCanBeLookedAt: what is read is there, under these names, for who may only read.
func TestTheNodesOwnKernelCanBeLookedAt(t *testing.T) {
	if _, err := lookAtNode(); err != nil {
		t.Error(err)
	}
}

// TestTheLinkIsSeenWithItsAddresses, though it is down, as kube-proxy leaves it. Its kind does not matter.
func TestTheLinkIsSeenWithItsAddresses(t *testing.T) {
	inNewNetwork(t)
	sees := func(want int) {
		t.Helper()
		if got, err := ipvsLinkAddresses(); got != want || err != nil {
			t.Errorf("it sees %d addresses, error %v, want %d", got, err, want)
		}
	}
	sees(-1)
	ip(t, "link", "add", ipvsLink, "type", "bridge")
	sees(0)
	for _, addr := range []string{"10.96.0.1/32", "10.96.7.7/32"} {
		ip(t, "address", "add", addr, "dev", ipvsLink)
	}
	sees(2)
}

func TestResidue(t *testing.T) {
	const noLink = -1
	services := map[netip.Addr]bool{netip.MustParseAddr("10.96.0.1"): true, netip.MustParseAddr("fd00::a"): true}
	ipvs := []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::a"), netip.MustParseAddr("192.168.1.9")}
	link := "mode ipvs left the link kube-ipvs0 with 312 addresses, for which this node takes every packet itself: " +
		"run `ip link delete kube-ipvs0` on it, or reboot it"
	table := "mode ipvs left 3 virtual services for ClusterIPs in the kernel's IPVS table: run `kube-proxy --cleanup` on the node and restart its " +
		"kube-proxy, whose rules go with it, or reboot the node"
	for name, tc := range map[string]struct {
		mode string
		k    kernel
		want []string
	}{
		"nothing was left":                       {mode: "iptables", k: kernel{linkAddresses: noLink, answering: []string{"eth0"}}},
		"ipvs left link and table":               {mode: "iptables", k: kernel{linkAddresses: 312, virtual: ipvs}, want: []string{link, table}},
		"ipvs left the table alone":              {mode: "nftables", k: kernel{linkAddresses: noLink, virtual: ipvs}, want: []string{table}},
		"the table is another program's":         {mode: "nftables", k: kernel{linkAddresses: noLink, virtual: ipvs[3:]}},
		"ipvs runs, and needs them":              {mode: "ipvs", k: kernel{linkAddresses: 312, virtual: ipvs}},
		"it is not known which mode runs":        {k: kernel{linkAddresses: 312, virtual: ipvs, answering: []string{"eth0"}}},
		"a mode that is not known may need them": {mode: "quantum", k: kernel{linkAddresses: 312, virtual: ipvs}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.k.residue(tc.mode, services)); diff != "" {
				t.Errorf("residue (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoose(t *testing.T) {
	answering := kernel{linkAddresses: 5, answering: []string{"eth0", "eth1"}}
	for name, tc := range map[string]struct {
		mode string
		k    kernel
		want []string
	}{
		"ipvs runs without strictARP on two interfaces": {mode: "ipvs", k: answering, want: []string{"eth0", "eth1"}},
		"ipvs runs with it":                             {mode: "ipvs", k: kernel{linkAddresses: 5}},
		"another mode has no addresses to answer for":   {mode: "nftables", k: answering},
		"it is not known which mode runs":               {k: answering},
	} {
		if diff := cmp.Diff(tc.want, tc.k.loose(tc.mode)); diff != "" {
			t.Errorf("%s: loose (-want +got):\n%s", name, diff)
		}
	}
}
