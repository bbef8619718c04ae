package responder

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	codec "github.com/mdlayher/arp"
)

// neighbourEntry is what a fake client holds for our address.
type neighbourEntry struct {
	mac     MAC
	present bool
	// updated is when it was, seen from the takeover.
	updated time.Duration
}

// take points an entry at whom a packet came from.
func (e *neighbourEntry) take(p arpPacket, at time.Duration) {
	*e = neighbourEntry{mac: p.senderHardware, present: true, updated: at}
}

// gratuitous says whether a packet is about its sender's own address.
func (p arpPacket) gratuitous() bool { return p.senderProtocol == p.targetProtocol }

// locktime is how long Linux leaves an entry alone after it was updated (net.ipv4.neigh.default.locktime).
const locktime = time.Second

// clients are the rules by which neighbours take what a packet says, as they were measured or are documented. forMe says that it asks for
// the client's own address.
var clients = map[string]func(e *neighbourEntry, p arpPacket, at time.Duration, forMe bool){
	"Linux from 4.12 on": func(e *neighbourEntry, p arpPacket, at time.Duration, forMe bool) {
		request := p.operation == codec.OperationRequest
		override := p.gratuitous() && (request || p.targetHardware == p.senderHardware) || at > e.updated+locktime
		if forMe && request || e.present && override {
			e.take(p, at)
		}
	},
	// It counts what it ignores as an update.
	"Linux before 4.12": func(e *neighbourEntry, p arpPacket, at time.Duration, forMe bool) {
		switch {
		case forMe && p.operation == codec.OperationRequest || e.present && at > e.updated+locktime:
			e.take(p, at)
		case e.present:
			e.updated = at
		}
	},
	// By default it takes nothing from gratuitous replies.
	"Junos": func(e *neighbourEntry, p arpPacket, at time.Duration, forMe bool) {
		if p.operation == codec.OperationRequest && (e.present || forMe) {
			e.take(p, at)
		}
	},
	// It takes nothing but from questions to itself.
	"Windows 2008": func(e *neighbourEntry, p arpPacket, at time.Duration, forMe bool) {
		if p.operation == codec.OperationRequest && forMe {
			e.take(p, at)
		}
	},
	"RFC 826": func(e *neighbourEntry, p arpPacket, at time.Duration, forMe bool) {
		if e.present || forMe {
			e.take(p, at)
		}
	},
}

// entries are the states that a client's entry can be in when the address moves.
var entries = map[string]neighbourEntry{
	"long held":                      {mac: theirMAC, present: true, updated: -time.Hour},
	"updated a moment ago":           {mac: theirMAC, present: true, updated: -time.Millisecond},
	"updated less than a second ago": {mac: theirMAC, present: true, updated: -900 * time.Millisecond},
	"absent":                         {},
}

// takeoverFrames are what a responder sends to one client after a takeover, each at its time.
func takeoverFrames(t *testing.T, client asker, known bool) (frames [][]byte, times []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWire()
		w.sniff = func(frame []byte) {
			if to := MAC(frame[:6]); to == broadcast || to == client.mac {
				frames, times = append(frames, frame), append(times, time.Since(w.start))
			}
		}
		r, stop, done := run(t, w, Config{})
		if known {
			w.in <- arpPacket{codec.OperationRequest, client.mac, MAC{}, client.addr, ourAddr}.frame(broadcast)
			synctest.Wait()
		}
		r.Own([]netip.Addr{ourAddr}, time.Now())
		time.Sleep(10 * time.Second)
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
	return frames, times
}

// converged is when a client's entry is ours and stays so, or that it never is.
func converged(e neighbourEntry, rule func(*neighbourEntry, arpPacket, time.Duration, bool), client asker, frames [][]byte, times []time.Duration) (time.Duration, bool) {
	since, ours := time.Duration(0), false
	for i, frame := range frames {
		p, _, ok := parseARP(frame)
		if !ok {
			return 0, false
		}
		rule(&e, p, times[i], p.targetProtocol == client.addr)
		if now := e.present && e.mac == ourMAC; now != ours {
			since, ours = times[i], now
		}
	}
	return since, ours
}

// TestEveryClientThatAskedConverges within 1.3 seconds, whatever its rules are and whatever state its entry is in.
func TestEveryClientThatAskedConverges(t *testing.T) {
	client := asker{netip.MustParseAddr("192.168.1.122"), MAC{2, 0, 0, 0, 0, 0xcc}}
	frames, times := takeoverFrames(t, client, true)
	for name, rule := range clients {
		for state, entry := range entries {
			t.Run(name+", "+state, func(t *testing.T) {
				if at, ok := converged(entry, rule, client, frames, times); !ok || at > 1300*time.Millisecond {
					t.Errorf("converged: %t, at %s; want it within 1.3s", ok, at)
				}
			})
		}
	}
}

// TestClientsThatWereNotHeardAsking have announcements alone: what these do, and what they cannot.
func TestClientsThatWereNotHeardAsking(t *testing.T) {
	client := asker{netip.MustParseAddr("192.168.1.122"), MAC{2, 0, 0, 0, 0, 0xcc}}
	frames, times := takeoverFrames(t, client, false)
	for name, tc := range map[string]struct {
		client, state string
		want          time.Duration
		never         bool
	}{
		"Linux takes a gratuitous packet at once":                        {client: "Linux from 4.12 on", state: "updated a moment ago"},
		"old Linux takes it if its entry is old":                         {client: "Linux before 4.12", state: "long held"},
		"old Linux waits until nothing came for a second":                {client: "Linux before 4.12", state: "updated a moment ago", want: 3 * time.Second},
		"Junos takes the request":                                        {client: "Junos", state: "updated a moment ago"},
		"Windows 2008 takes nothing, and asks once its entry is too old": {client: "Windows 2008", state: "long held", never: true},
		"RFC 826 takes anything":                                         {client: "RFC 826", state: "updated a moment ago"},
	} {
		t.Run(name, func(t *testing.T) {
			at, ok := converged(entries[tc.state], clients[tc.client], client, frames, times)
			if ok == tc.never || at != tc.want {
				t.Errorf("converged: %t, at %s; want %t, at %s", ok, at, !tc.never, tc.want)
			}
		})
	}
}
