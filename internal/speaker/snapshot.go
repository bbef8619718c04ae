package speaker

import (
	"net/netip"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/ipam"
	"github.com/lanyard-dev/lanyard/internal/membership"
)

// snapshot is all that the speaker decides from.
type snapshot struct {
	// self is this node.
	self           string
	pools          []ipam.Pool
	advertisements []v1alpha1.L2Advertisement
	services       []service
	nodes          []node
	// away are the nodes that the manager asks to leave out while another is left: their kube-proxy is being restarted.
	away map[string]bool
	// members are the nodes whose speakers are alive, this one included, with the segments that each can serve and the addresses that it
	// claims.
	members map[string]membership.Member
	// lost are the nodes whose speakers died, or are not reached any more.
	lost []string
	// epochs are the highest that were heard of.
	epochs map[netip.Addr]uint64
	// wire is what the hosts around say, if exactly half of the speakers is heard.
	wire election.Wire
	// departing means that this node's speaker ends.
	departing bool
	// ask says what the wire says of an address that this node takes over; nil while it takes none.
	ask func(addr netip.Addr, offered bool) (election.Fence, election.Occupant)
}

// service is a Service of ours with addresses.
type service struct {
	name string
	// addrs are the addresses in its status.
	addrs []netip.Addr
	// draining are those of its addresses that no pool holds and that we gave it: they go on being announced.
	draining map[netip.Addr]string // with the pool that each came from, as far as is known
	// local means externalTrafficPolicy Local: only nodes with an endpoint serve it.
	local bool
	// endpoints are the nodes with a ready endpoint, or one that still serves while it ends when none is ready.
	endpoints map[string]bool
}

// node is a node of the cluster.
type node struct {
	name               string
	labels             map[string]string
	networkUnavailable bool
	// addrs are its own addresses.
	addrs []netip.Addr
	// kubelet is where its kubelet listens; invalid without an address.
	kubelet netip.AddrPort
	// unreachable means that the API server has not heard from its kubelet for so long that it takes the node for lost.
	unreachable bool
}
