package responder

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// many returns n addresses in order.
func many(n int) []netip.Addr {
	all := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	for len(all) < n {
		all = append(all, all[len(all)-1].Next())
	}
	return all
}

// simulate follows the agenda of addresses that were taken over at once, until an end, and hands on what it says each time.
func simulate(addrs []netip.Addr, until time.Duration, at func(elapsed time.Duration, announced, refreshed []netip.Addr)) {
	start := time.Unix(1000, 0)
	owned := map[netip.Addr]time.Time{}
	for _, a := range addrs {
		owned[a] = start
	}
	g := newAgenda()
	for now := start; now.Sub(start) < until; {
		announced, refreshed, next := g.due(now, owned)
		at(now.Sub(start), announced, refreshed)
		now = now.Add(next)
	}
}

func TestEachAddressIsRefreshedOnceInFiveMinutes(t *testing.T) {
	addrs := many(1000)
	refreshes := map[netip.Addr][]time.Duration{}
	most := 0
	simulate(addrs, 1050*time.Second, func(elapsed time.Duration, _, refreshed []netip.Addr) {
		most = max(most, len(refreshed))
		for _, a := range refreshed {
			refreshes[a] = append(refreshes[a], elapsed)
		}
	})
	for _, a := range addrs {
		times := refreshes[a]
		if len(times) != 3 && len(times) != 2 {
			t.Fatalf("%s is refreshed %d times in three and a half intervals, want two or three", a, len(times))
		}
		for i, at := range times {
			if want := timeOf(len(schedule)+i, a); at < want || at > want+time.Second {
				t.Errorf("%s is refreshed at %s, want it within a second of %s", a, at, want)
			}
		}
	}
	if most > 15 { // were they not spread, it would be 50 at a time
		t.Errorf("up to %d addresses are refreshed at once, want the refreshes of 1,000 spread over five minutes", most)
	}
}

// TestRefreshesAreCapped: when the refreshes of 120 addresses are late, they are made up for in three seconds, the one most overdue first.
func TestRefreshesAreCapped(t *testing.T) {
	start := time.Unix(1000, 0)
	owned := map[netip.Addr]time.Time{}
	for i, a := range many(120) {
		owned[a] = start.Add(time.Duration(i) * time.Hour)
	}
	g, now := newAgenda(), start.Add(200*time.Hour)
	g.due(now, owned) // the announcements
	now = now.Add(refreshEvery)
	late := slices.Collect(maps.Keys(g.progress))
	slices.SortFunc(late, func(a, b takeover) int { return g.progress[a].next.Compare(g.progress[b].next) })
	var want []netip.Addr
	for _, l := range late {
		want = append(want, l.addr)
	}
	var got []netip.Addr
	for range 3 {
		_, refreshed, _ := g.due(now, owned)
		if len(refreshed) > refreshAtMost {
			t.Errorf("%d addresses are refreshed in a second, want at most %d", len(refreshed), refreshAtMost)
		}
		if _, again, _ := g.due(now.Add(time.Second/2), owned); again != nil {
			t.Errorf("%d addresses are refreshed half a second later, want none", len(again))
		}
		got, now = append(got, refreshed...), now.Add(time.Second)
	}
	if diff := cmp.Diff(want, got[:len(want)], compareAddrs); diff != "" {
		t.Errorf("refreshed (-want +got):\n%s", diff)
	}
}

func TestTheAgendaMakesUpOnceForWhatWasMissed(t *testing.T) {
	type step struct {
		Announced, Refreshed []netip.Addr
		Next                 string
	}
	first := firstRefresh(ourAddr)
	for name, tc := range map[string]struct {
		elapsed []time.Duration
		want    []step
	}{
		"at the start":                     {[]time.Duration{0}, []step{{Announced: []netip.Addr{ourAddr}, Next: "100ms"}}},
		"a moment later, nothing":          {[]time.Duration{0, 40 * time.Millisecond}, []step{{Announced: []netip.Addr{ourAddr}, Next: "100ms"}, {Next: "60ms"}}},
		"three announcements were missed":  {[]time.Duration{2 * time.Second}, []step{{Announced: []netip.Addr{ourAddr}, Next: "1s"}}},
		"all announcements were missed":    {[]time.Duration{10 * time.Second}, []step{{Announced: []netip.Addr{ourAddr}, Next: (first - 10*time.Second).String()}}},
		"the first refresh":                {[]time.Duration{10 * time.Second, first}, []step{{Announced: []netip.Addr{ourAddr}, Next: (first - 10*time.Second).String()}, {Refreshed: []netip.Addr{ourAddr}, Next: "5m0s"}}},
		"refreshes were missed":            {[]time.Duration{10 * time.Second, first + 700*time.Second}, []step{{Announced: []netip.Addr{ourAddr}, Next: (first - 10*time.Second).String()}, {Refreshed: []netip.Addr{ourAddr}, Next: "3m20s"}}},
		"everything was missed, refreshes": {[]time.Duration{first + time.Second}, []step{{Announced: []netip.Addr{ourAddr}, Next: "4m59s"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g, start := newAgenda(), time.Unix(1000, 0)
			var got []step
			for _, elapsed := range tc.elapsed {
				announced, refreshed, next := g.due(start.Add(elapsed), map[netip.Addr]time.Time{ourAddr: start})
				got = append(got, step{announced, refreshed, next.String()})
			}
			if diff := cmp.Diff(tc.want, got, compareAddrs); diff != "" {
				t.Errorf("agenda (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAskers(t *testing.T) {
	start := time.Unix(1000, 0)
	addr := func(i int) netip.Addr { return many(i + 1)[i] }
	who := func(i int) asker {
		return asker{netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)}), MAC{2, 0, 0, 0, byte(i >> 8), byte(i)}}
	}
	type ask struct {
		who, addr int
		at        time.Duration
	}
	series := func(n int, of func(i int) ask) (all []ask) {
		for i := range n {
			all = append(all, of(i))
		}
		return all
	}
	for name, tc := range map[string]struct {
		asks []ask
		at   time.Duration
		want []int // who is told of address 0
	}{
		"nobody asked":                            {},
		"one asked":                               {asks: []ask{{7, 0, 0}}, want: []int{7}},
		"one asked twice":                         {asks: []ask{{7, 0, 0}, {7, 0, 1}}, want: []int{7}},
		"who asked last comes first":              {asks: []ask{{7, 0, 0}, {8, 0, 1}}, want: []int{8, 7}},
		"another address was asked for":           {asks: []ask{{7, 1, 0}}},
		"an hour ago":                             {asks: []ask{{7, 0, 0}}, at: time.Hour},
		"an hour ago, and again since":            {asks: []ask{{7, 0, 0}, {7, 0, time.Minute}}, at: time.Hour, want: []int{7}},
		"an hour ago, and for another since":      {asks: []ask{{7, 0, 0}, {7, 1, time.Minute}}, at: time.Hour},
		"for many others, as routers do":          {asks: series(routerAsks, func(i int) ask { return ask{7, i + 1, 0} }), want: []int{7}},
		"for not quite as many":                   {asks: series(routerAsks-1, func(i int) ask { return ask{7, i + 1, 0} })},
		"for many others, most an hour ago":       {asks: series(routerAsks, func(i int) ask { return ask{7, i + 1, time.Duration(i) * time.Minute} }), at: time.Hour},
		"for so many that this one was forgotten": {asks: series(routerAsks+1, func(i int) ask { return ask{7, i, 0} }), want: []int{7}},
		"more than are told": {asks: series(toldAtMost+3, func(i int) ask { return ask{i, 0, time.Duration(i)} }),
			want: []int{18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3}},
		"who asked the longest ago made room": {
			asks: append([]ask{{300, 0, 1}, {301, 0, 0}}, series(askersAtMost-1, func(i int) ask { return ask{i, 1, 2} })...), want: []int{300}},
	} {
		t.Run(name, func(t *testing.T) {
			k := askers{}
			for _, a := range tc.asks {
				k.learn(who(a.who), addr(a.addr), start.Add(a.at))
			}
			want := []asker{}
			for _, i := range tc.want {
				want = append(want, who(i))
			}
			diff := cmp.Diff(want, k.of(addr(0), start.Add(tc.at)), cmp.AllowUnexported(asker{}), compareAddrs)
			if diff != "" || len(k) > askersAtMost {
				t.Errorf("%d remembered; told (-want +got):\n%s", len(k), diff)
			}
		})
	}
}

// TestAnAskerWhoseHardwareAddressChanged is told at the new one.
func TestAnAskerWhoseHardwareAddressChanged(t *testing.T) {
	k, now := askers{}, time.Unix(1000, 0)
	router, newMAC := netip.MustParseAddr("192.168.1.1"), MAC{2, 0, 0, 0, 0, 0xcc}
	k.learn(asker{router, theirMAC}, ourAddr, now)
	k.learn(asker{router, newMAC}, ourAddr, now)
	if diff := cmp.Diff([]asker{{router, newMAC}}, k.of(ourAddr, now), cmp.AllowUnexported(asker{}), compareAddrs); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
