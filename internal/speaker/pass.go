package speaker

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/lanyard-dev/lanyard/api/v1alpha1"
	"github.com/lanyard-dev/lanyard/internal/election"
	"github.com/lanyard-dev/lanyard/internal/links"
	"github.com/lanyard-dev/lanyard/internal/membership"
	"github.com/lanyard-dev/lanyard/internal/responder"
)

// pass gathers, decides, applies and reports once. When it fails, what was decided before stays; but the others hear at once of segments on
// which this node answers no longer.
func (s *Speaker) pass(ctx context.Context, r *responders) error {
	interfaces, err := links.List()
	if err == nil {
		err = s.act(ctx, r, interfaces)
	}
	if err != nil {
		s.serve(slices.DeleteFunc(slices.Clone(s.served), func(segment membership.Segment) bool { return !r.answers(segment.Interface, segment.Prefix.Addr()) }))
	}
	return err
}

// act decides and applies. The others are told last what this node serves and claims: then it answers for what they leave to it, and on an
// interface without a responder nothing is left to it.
func (s *Speaker) act(ctx context.Context, r *responders, interfaces []links.Interface) error {
	now := time.Now()
	r.sync(ctx, interfaces, now)
	configErr := s.learn(ctx)
	seen := observation{self: s.config.Node, interfaces: interfaces}
	members := s.group.Members()
	if s.inForce == nil {
		s.serve(nil)
		s.group.Claim(nil)
		seen.members, seen.mute = members, r.reasons()
		s.publish(seen)
		return configErr
	}
	segments, fitErr := membership.Fit(segmentsOf(interfaces, func(name string, addr netip.Addr) bool {
		return r.answers(name, addr) && s.around.deaf(outlet{name, protocolOf(addr)}) == ""
	}))
	around := neighboursOf(interfaces, members)
	snap, err := s.look(ctx, segments, around, members, r, now)
	if err != nil {
		return errors.Join(configErr, err)
	}
	seen.gateways = s.gateways()
	s.listen(r, snap, interfaces, seen.gateways, around, now)
	seen.foreign, seen.free = s.lookout.found()
	seen.silent = s.silence.found()
	verdicts := decide(snap)
	s.take(verdicts, snap, now)
	s.apply(r, verdicts, snap, segments, around, now)
	seen.generation, seen.verdicts, seen.since, seen.moves, seen.members, seen.mute = s.inForce.Generation, verdicts, s.since, s.moves, snap.members, s.mute(r, interfaces)
	s.publish(seen)
	s.metrics.observe(seen, s.claims.contested())
	s.complain(errors.Join(configErr, fitErr))
	return nil
}

// listen sets what the responders listen to, and whom the tasks beside the loop ask.
func (s *Speaker) listen(r *responders, snap snapshot, interfaces []links.Interface, gateways []netip.Addr, around neighbours, now time.Time) {
	hosts := hostsAround(interfaces, gateways, snap)
	s.around.watch(hosts, r.asker())
	suspects := s.silence.watch(suspectsOf(snap, s.inForce.FailureDetection, interfaces), r.asker(), now)
	r.hear(listened(snap), slices.Concat(hosts, suspects), now)
	foreign, _ := s.lookout.found()
	s.lookout.watch(snap.pools, around, ahead(snap, foreign), r.prober())
}

// look gathers what is decided from: the cluster, the group, the wire. What others were seen to say is answered by announcing again.
func (s *Speaker) look(
	ctx context.Context, segments []membership.Segment, around neighbours, members map[string]membership.Member, r *responders, now time.Time,
) (snapshot, error) {
	if s.claims == nil {
		s.claims = newClaims()
		s.claims.resume(s.group.Former())
		for addr := range s.claims.addresses() {
			s.owners[addr] = s.config.Node
		}
	}
	for _, addr := range s.claims.see(s.seen.take(), around, now) {
		r.announce(addr, now)
		s.metrics.conflicts.Inc()
	}
	s.claims.ends = time.Time{}
	members = maps.Clone(members)
	members[s.config.Node] = membership.Member{Segments: segments, Claims: s.claims.told()}
	snap, err := s.source.snapshot(ctx, s.config.Node, *s.inForce, members)
	if err != nil {
		return snapshot{}, err
	}
	s.group.Forget(snap.lists)
	snap.lost, snap.epochs, snap.departing = s.missed(members), s.group.Epochs(), s.departing.Load()
	q := snap.quorum()
	snap.wire = s.around.wire(2*q.Heard == q.Known, now)
	if s.around.doubts(now) && snap.wire != election.Answered {
		s.around.askAll()
	}
	q.Wire = snap.wire
	s.claims.cutOff = !q.Suffices()
	snap.ask = func(addr netip.Addr, offered bool) (election.Fence, election.Occupant) {
		return s.claims.ask(addr, offered, now)
	}
	return snap, nil
}

// apply makes the responders answer for what was decided, tells the others, and asks the wire about what is being taken over.
func (s *Speaker) apply(
	r *responders, verdicts []verdict, snap snapshot, segments []membership.Segment, around neighbours, now time.Time,
) {
	again := s.claims.settle(verdicts, snap)
	claimed := s.claims.addresses()
	s.seen.about(claimed)
	r.own(byInterface(verdicts, verdict.answers), byInterface(verdicts, verdict.seeks), now)
	s.serve(segments)
	s.group.Claim(s.claims.told())
	for _, addr := range again {
		r.announce(addr, now)
	}
	ask := append(s.claims.due(verdicts, around, now), s.claims.doubts(verdicts, now)...)
	for _, v := range ask {
		r.probe(v.iface, v.addr, now)
	}
	if s.departing.Load() && len(claimed) == 0 {
		s.departed()
	}
}

// retryIn is when a pass has to be made again for the sake of what is being taken over.
func (s *Speaker) retryIn(now time.Time) time.Duration {
	switch {
	case s.claims == nil:
		return lookAgain
	case s.around.doubts(now):
		return min(askUrgently, s.claims.retryIn(now))
	}
	return s.claims.retryIn(now)
}

// learn takes over the configuration that is stored. One that cannot be read leaves the one before in force.
func (s *Speaker) learn(ctx context.Context) error {
	latest, err := s.source.configuration(ctx)
	if latest != nil {
		s.inForce = latest
		s.witness.askAt(latest.KubeProxyMetricsAddress)
	}
	return err
}

// serve tells the others which segments this node serves.
func (s *Speaker) serve(segments []membership.Segment) {
	s.served = segments
	s.group.Serve(segments)
}

// take notes which addresses are ours now, and says what has changed.
func (s *Speaker) take(verdicts []verdict, snap snapshot, now time.Time) {
	ours, moves := map[netip.Addr]time.Time{}, map[netip.Addr]move{}
	for _, v := range verdicts {
		if !v.answers() {
			continue
		}
		since, had := s.since[v.addr]
		if !had {
			since = now
			m := snap.moveOf(v, s.owners[v.addr], s.group.Answered, now)
			s.moves[v.addr] = m
			s.metrics.moved(m)
			s.log.Info("announcing", "address", v.addr, "interface", v.iface, "reason", v.decision.Reason, "from", m.from, "because", m.reason,
				"silence", m.silence.String())
		}
		ours[v.addr], moves[v.addr] = since, s.moves[v.addr]
	}
	for a := range s.since {
		if _, still := ours[a]; !still {
			s.log.Info("no longer announcing", "address", a)
		}
	}
	s.since, s.moves = ours, moves
	s.owners.note(verdicts, snap)
}

// byInterface groups the addresses with verdicts of a kind by the interface of this node that they are on.
func byInterface(verdicts []verdict, kind func(verdict) bool) map[string][]netip.Addr {
	grouped := map[string][]netip.Addr{}
	for _, v := range verdicts {
		if kind(v) {
			grouped[v.iface] = append(grouped[v.iface], v.addr)
		}
	}
	return grouped
}

// listened returns of which addresses all is listened to: the pools, so that an address that moves here needs no new filter, and the addresses
// that are still announced after their pool went.
func listened(s snapshot) []responder.Range {
	var ranges []responder.Range
	for _, p := range s.pools {
		for _, r := range p.Ranges {
			ranges = append(ranges, responder.Range{First: r.First, Last: r.Last})
		}
	}
	for _, svc := range s.services {
		for a := range svc.draining {
			ranges = append(ranges, responder.Range{First: a, Last: a})
		}
	}
	return ranges
}

// segmentsOf returns what a node with these interfaces serves: those with carrier on which it answers.
func segmentsOf(interfaces []links.Interface, answers func(name string, addr netip.Addr) bool) []membership.Segment {
	var segments []membership.Segment
	for _, i := range interfaces {
		var mac membership.MAC // zero for another kind than Ethernet
		if len(i.MAC) == len(mac) {
			mac = membership.MAC(i.MAC)
		}
		for _, p := range i.Addresses {
			if i.Carrier && answers(i.Name, p.Addr()) {
				segments = append(segments, membership.Segment{Interface: i.Name, Prefix: p, MAC: mac})
			}
		}
	}
	return segments
}

// see takes in what others say on the wire.
func (s *Speaker) see(iface string, sighting responder.Sighting) {
	now := time.Now()
	s.around.heard(sighting, now)
	s.lookout.heard(iface, sighting, now)
	s.silence.heard(sighting)
	s.seen.note(sighting)
}

// gateways are the routers of this node; none while they cannot be listed.
func (s *Speaker) gateways() []netip.Addr {
	gateways, err := links.Gateways()
	if err != nil {
		s.log.Error(err, "cannot tell whether the routers answer; it is tried again")
	}
	return gateways
}

// mute says what keeps outlets of interfaces with carrier from being of use.
func (s *Speaker) mute(r *responders, interfaces []links.Interface) map[outlet]string {
	all := r.reasons()
	for at := range outletsOf(interfaces) {
		if why := s.around.deaf(at); why != "" && all[at] == "" {
			all[at] = why
		}
	}
	return all
}

// publish reports an observation, keeping what is known of kube-proxy and of the keys.
func (s *Speaker) publish(o observation) {
	status := statusOf(o)
	s.report.observe(func(latest *v1alpha1.NodeNetworkingStatus) {
		status.KubeProxy, status.MembershipKeys = latest.KubeProxy, latest.MembershipKeys
		*latest = status
	})
}
