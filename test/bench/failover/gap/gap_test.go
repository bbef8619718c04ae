package gap

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Unix(1_800_000_000, 0)

// at is a time, in milliseconds from the start.
func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// each makes an answer each millisecond, from and to included.
func each(from, to int, via string) []Answer {
	var all []Answer
	for ms := from; ms <= to; ms++ {
		all = append(all, Answer{Sent: at(ms), At: at(ms), Via: via, Backend: "b-" + via})
	}
	return all
}

// probed has a probe each millisecond until an end, and these answers.
func probed(answers []Answer, end int) Record {
	r := Record{Answers: answers}
	for ms := range end {
		r.Sent = append(r.Sent, at(ms))
	}
	return r
}

func join(parts ...[]Answer) []Answer {
	var all []Answer
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestLongest(t *testing.T) {
	for name, tc := range map[string]struct {
		answers    []Answer
		fault, end int
		want       Outage
	}{
		"the gap goes from the last good reply to the first that goes on": {
			answers: join(each(0, 105, "a"), each(900, 3000, "b")), fault: 100, end: 3000, want: Outage{From: at(105), To: at(900)}},
		"one reply in the midst of it does not end it": {
			answers: join(each(0, 105, "a"), each(500, 500, "b"), each(900, 3000, "b")), fault: 100, end: 3000, want: Outage{From: at(105), To: at(900)}},
		"a burst that breaks off before it has gone on does not end it": {
			answers: join(each(0, 105, "a"), each(500, 600, "b"), each(900, 3000, "b")), fault: 100, end: 3000, want: Outage{From: at(105), To: at(900)}},
		"two outages with service between are two, and the longer counts": {
			answers: join(each(0, 105, "a"), each(205, 1000, "b"), each(1150, 3000, "b")), fault: 100, end: 3000, want: Outage{From: at(1000), To: at(1150)}},
		"silences before the fault do not count": {
			answers: join(each(0, 10, "a"), each(60, 100, "a"), each(130, 3000, "b")), fault: 100, end: 3000, want: Outage{From: at(100), To: at(130)}},
		"a silence during which the fault comes counts from its beginning": {
			answers: join(each(0, 90, "a"), each(190, 3000, "b")), fault: 100, end: 3000, want: Outage{From: at(90), To: at(190)}},
		"without a silence it is the longest time between two answers": {
			answers: join(each(0, 200, "a"), each(204, 3000, "b")), fault: 100, end: 3000, want: Outage{From: at(200), To: at(204)}},
		"where no probe was lost there is none": {
			answers: each(0, 3000, "a"), fault: 100, end: 3000},
		"one that is not over when the watch ends is open": {
			answers: each(0, 105, "a"), fault: 100, end: 3000, want: Outage{From: at(105), To: at(3000), Open: true}},
		"one that ends in a burst just before the end and breaks off is open": {
			answers: join(each(0, 105, "a"), each(2900, 2950, "b")), fault: 100, end: 3000, want: Outage{From: at(105), To: at(3000), Open: true}},
		"without any answer it begins with the fault": {
			fault: 100, end: 3000, want: Outage{From: at(100), To: at(3000), Open: true}},
		"what comes after the end does not count": {
			answers: join(each(0, 105, "a"), each(3100, 3200, "b")), fault: 100, end: 3000, want: Outage{From: at(105), To: at(3000), Open: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Dense.Longest(probed(tc.answers, tc.end), at(tc.fault), at(tc.end))); diff != "" {
				t.Errorf("outage (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAClientThatWasHeldUpHadNoOutage(t *testing.T) {
	record := Record{Answers: join(each(0, 200, "a"), each(500, 3000, "a"))}
	for _, a := range record.Answers {
		record.Sent = append(record.Sent, a.Sent)
	}
	record.Sent = slices.Insert(record.Sent, 201, at(300)) // one that got lost
	if diff := cmp.Diff(Outage{From: at(200), To: at(500)}, Dense.Longest(record, at(100), at(3000))); diff != "" {
		t.Errorf("with a lost probe (-want +got):\n%s", diff)
	}
	record.Sent = slices.Delete(record.Sent, 201, 202)
	if diff := cmp.Diff(Outage{}, Dense.Longest(record, at(100), at(3000))); diff != "" {
		t.Errorf("without one (-want +got):\n%s", diff)
	}
}

func TestAnswersThatComeLateAreNoOutage(t *testing.T) {
	record := probed(join(each(0, 200, "a"), each(501, 3000, "a")), 3000)
	for ms := 201; ms <= 500; ms++ { // of these, two of three are answered, at 500 ms
		if ms%3 > 0 {
			record.Answers = slices.Insert(record.Answers, len(record.Answers)-2500, Answer{Sent: at(ms), At: at(500)})
		}
	}
	if got := Dense.extend(nil, Outage{From: at(200), To: at(500)}, record.Sent, record.unanswered()); got != nil {
		t.Errorf("it is %v", got)
	}
}

func TestSparseProbesAreNoSilences(t *testing.T) {
	var record Record
	for ms := 0; ms <= 3000; ms += 100 {
		record.Sent = append(record.Sent, at(ms))
		if ms <= 500 || ms >= 1400 {
			record.Answers = append(record.Answers, Answer{Sent: at(ms), At: at(ms)})
		}
	}
	if diff := cmp.Diff(Outage{From: at(500), To: at(1400)}, Sparse.Longest(record, at(450), at(3000))); diff != "" {
		t.Errorf("outage (-want +got):\n%s", diff)
	}
}

func TestLost(t *testing.T) {
	outage := Outage{From: at(105), To: at(900)}
	good := join(each(0, 105, "a"), each(900, 3000, "b"))
	for name, tc := range map[string]struct {
		answers []Answer
		want    Losses
	}{
		"those of the outage are told": {answers: good, want: Losses{During: 794}},
		"those to a backend that is dead are told apart": {
			answers: join(each(0, 105, "a"), each(900, 1000, "b"), each(1011, 3000, "b")), want: Losses{During: 794, Otherwise: 10}},
		"those that may still be answered are not": {answers: join(each(0, 105, "a"), each(900, 2500, "b")), want: Losses{During: 794}},
		"those that were on their way when the outage began are its own": {
			answers: join(each(0, 100, "a"), each(103, 105, "a"), each(900, 3000, "b")), want: Losses{During: 796}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, probed(tc.answers, 3000).Lost(outage, at(100), at(3000))); diff != "" {
				t.Errorf("losses (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFirstNotVia(t *testing.T) {
	answers := join(each(0, 105, "a"), each(900, 950, "b"))
	if got, ok := FirstNotVia(answers, at(100), "a"); !ok || got.At != at(900) {
		t.Errorf("the first through another node than a is %v, %v, want the one at 900 ms", got, ok)
	}
	if got, ok := FirstNotVia(answers[:50], at(10), "a"); ok {
		t.Errorf("all came through a, and yet there is %v", got)
	}
}

func TestSettled(t *testing.T) {
	for name, tc := range map[string]struct {
		answers []Answer
		want    bool
	}{
		"two seconds of answers are settled":         {answers: each(0, 3000, "a"), want: true},
		"less than two seconds are not":              {answers: each(1500, 3000, "a")},
		"two seconds with an outage in are not":      {answers: join(each(0, 2000, "a"), each(2300, 3000, "b"))},
		"two seconds that ended a while ago are not": {answers: each(0, 2700, "a")},
		"a moment's silence does not matter":         {answers: join(each(0, 2000, "a"), each(2015, 3000, "b")), want: true},
		"no answers are not":                         {},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Settled(probed(tc.answers, 3000), at(3000), 2*time.Second); got != tc.want {
				t.Errorf("settled: %v", got)
			}
		})
	}
}

func TestThrough(t *testing.T) {
	via, backends := Through(join(each(0, 10, "c"), each(20, 30, "b"), each(40, 50, "a")), at(15))
	if diff := cmp.Diff([][]string{{"a", "b"}, {"b-a", "b-b"}}, [][]string{via, backends}); diff != "" {
		t.Errorf("nodes and backends since 15 ms (-want +got):\n%s", diff)
	}
}

func TestTickLeavesOutWhatWasMissed(t *testing.T) {
	for ms, want := range map[int]int64{0: 0, 1: 1, 7: 7, 50: 50} {
		beat, late := Tick(start, at(ms).Add(200*time.Microsecond), time.Millisecond)
		if beat != want || late != 200*time.Microsecond {
			t.Errorf("200 µs after %d ms it is beat %d, %s late", ms, beat, late)
		}
	}
}
