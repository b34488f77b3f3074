package heartbeat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestChoose(t *testing.T) {
	cases := map[string]struct {
		why    string
		agents int
		now    time.Duration
		want   time.Duration
	}{
		"NoAgents":   {"", 0, 0, time.Minute},
		"Few":        {"a person learns within three minutes that a cluster is away", 10, 0, time.Minute},
		"Full":       {"100 a second", 6000, 0, time.Minute},
		"OneMore":    {"never more than 100 a second", 6001, 0, 75 * time.Second},
		"Many":       {"", 40_000, 0, 8 * time.Minute},
		"TooMany":    {"an hour at most, however many there are", 1_000_000, 0, time.Hour},
		"Grows":      {"at once", 7501, 75 * time.Second, 90 * time.Second},
		"Shrinks":    {"not for one cluster that goes", 6000, 75 * time.Second, 75 * time.Second},
		"ShrinksFar": {"but for many", 6000, 90 * time.Second, time.Minute},
		"Given":      {"what a person had set counts no longer", 10, 15 * time.Minute, time.Minute},
		"Odd":        {"nor does what is no step", 6001, 80 * time.Second, 75 * time.Second},
		"Last":       {"the longest step has none above it", 360_000, time.Hour, time.Hour},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Choose(c.agents, c.now); got != c.want {
				t.Errorf("%s: want %s, got %s", c.why, c.want, got)
			}
		})
	}
}

// However many there are, up to what an hour allows there are at most 100 a second,
// and one that comes or goes changes nothing twice.
func TestChooseKeepsItsWord(t *testing.T) {
	now := time.Duration(0)
	for n := 1; n <= 360_000; n += 997 {
		now = Choose(n, now)
		if rate := float64(n) / now.Seconds(); rate > 100 {
			t.Fatalf("%d clusters every %s: %.1f a second", n, now, rate)
		}
		if again := Choose(n, now); again != now {
			t.Fatalf("%d clusters: %s, then %s", n, now, again)
		}
		if fewer := Choose(n-1, now); fewer != now {
			t.Fatalf("one of %d clusters goes: %s, then %s", n, now, fewer)
		}
	}
}

func TestParseInterval(t *testing.T) {
	for text, want := range map[string]string{
		"": "auto", "auto": "auto", "0": "auto", "0s": "auto", "1s": "1s", "75s": "1m15s", "60s": "1m", "1h": "1h", "90m": "",
		"1ms": "", "-1m": "", "often": "", "15": "",
	} {
		d, err := ParseInterval(text)
		if (err != nil) != (want == "") {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && FormatInterval(d) != want {
			t.Errorf("%q: want %s, got %s", text, want, FormatInterval(d))
		}
	}
}

// reported is a Cluster with an annotation.
func reported(interval string) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}
	if interval != "" {
		c.Annotations = map[string]string{fleet.AnnotationCheckInInterval: interval}
	}
	return c
}

func TestReport(t *testing.T) {
	c := reported("")
	out := Report(c, 15*time.Minute)
	if out.Annotations[fleet.AnnotationCheckInInterval] != "15m" || c.Annotations != nil {
		t.Errorf("got %v; the old Cluster has %v", out.Annotations, c.Annotations)
	}
	if Report(out, 15*time.Minute) != out || Report(c, 0) != c {
		t.Error("got what it has already, or an unknown interval")
	}
	if got := Reported([]*fleet.Cluster{c, reported("5m"), reported("15m"), reported("nonsense")}); got != 15*time.Minute {
		t.Errorf("they got %s", got)
	}
	polls := reported("")
	polls.Spec.CheckIn = &fleet.ClusterCheckIn{Mode: ModePoll, Schedule: "@daily"}
	if n := Connected([]*fleet.Cluster{c, polls, out}); n != 2 {
		t.Errorf("%d check in all the time", n)
	}
}

func TestTimeout(t *testing.T) {
	const day = 24 * time.Hour
	missed, broken := "the agent missed 3 check-ins", "the agent did not come when it had said it would"
	cases := map[string]struct {
		why    string
		policy CheckInPolicy
		usual  time.Duration
		want   time.Duration
		absent string
	}{
		"Silent":       {"an agent that does not say", CheckInPolicy{Protocol: 2}, time.Minute, 3 * time.Minute, missed},
		"Usual":        {"one that checks in as the manager expects it", CheckInPolicy{Protocol: 2, Announced: time.Minute}, time.Minute, 3 * time.Minute, missed},
		"Hasty":        {"one that checks in more often is not missed earlier: check-ins get lost", CheckInPolicy{Protocol: 2, Announced: 10 * time.Second}, time.Minute, 3 * time.Minute, missed},
		"Ordered":      {"a large fleet", CheckInPolicy{Protocol: 2, Ordered: 5 * time.Minute, Announced: 5 * time.Minute}, time.Minute, 15 * time.Minute, missed},
		"JustOrdered":  {"it learns of it with the next check-in", CheckInPolicy{Protocol: 2, Ordered: 15 * time.Minute, Announced: time.Minute}, time.Minute, 45 * time.Minute, missed},
		"OrderedLess":  {"it comes when it said it would, and from then on more often", CheckInPolicy{Protocol: 2, Ordered: time.Minute, Announced: 15 * time.Minute}, 15 * time.Minute, 17 * time.Minute, broken},
		"Own":          {"an interval of its own", CheckInPolicy{Protocol: 2, Announced: 15 * time.Minute}, time.Minute, 17 * time.Minute, broken},
		"Scheduled":    {"a visit is tried for five minutes", CheckInPolicy{Protocol: 2, Announced: day, Scheduled: true}, time.Minute, day + 6*time.Minute, broken},
		"LongSchedule": {"", CheckInPolicy{Protocol: 2, Announced: day, Scheduled: true}, time.Hour, day + 2*time.Hour, broken},
		"Nonsense":     {"a time that is past already", CheckInPolicy{Protocol: 2, Announced: -time.Hour}, time.Minute, 3 * time.Minute, missed},
		"Reference":    {"its agents check in every 15 minutes, and know no other manager's wishes", CheckInPolicy{Ordered: time.Minute}, time.Minute, 45 * time.Minute, missed},
		"SlowManager":  {"", CheckInPolicy{}, time.Hour, 3 * time.Hour, missed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.policy.Deadline(c.usual); got != c.want {
				t.Errorf("%s: want %s, got %s", c.why, c.want, got)
			}
			if got := c.policy.Absent(c.usual); got != c.absent {
				t.Errorf("%s: it says %q", c.why, got)
			}
		})
	}
}

func TestPolicyOf(t *testing.T) {
	c := reported("5m")
	c.Spec.CheckIn = &fleet.ClusterCheckIn{Mode: ModePoll, Schedule: "0 3 * * *"}
	seen := time.Date(2026, 8, 24, 3, 0, 0, 0, time.UTC)
	next := metav1.NewTime(seen.Add(24 * time.Hour))
	c.Status.Agent = fleet.AgentStatus{LastSeen: metav1.NewTime(seen), NextCheckIn: &next}
	want := CheckInPolicy{Ordered: 5 * time.Minute, Announced: 24 * time.Hour, Scheduled: true, Protocol: 2}
	if diff := cmp.Diff(want, PolicyOf(c, 2)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	c.Spec.CheckIn = nil
	if diff := cmp.Diff(want, PolicyOf(c, 2)); diff != "" {
		t.Errorf("no agent stays away for a day without a schedule: -want +got\n%s", diff)
	}
	if diff := cmp.Diff(CheckInPolicy{Protocol: 1}, PolicyOf(reported("nonsense"), 1)); diff != "" {
		t.Errorf("nothing is known: -want +got\n%s", diff)
	}
}

// A thousand agents that lose one manager at the same moment try again evenly
// spread, each at times that can be computed beforehand.
func TestAgain(t *testing.T) {
	const agents, parts = 1000, 15
	start := time.Date(2026, 8, 24, 14, 2, 7, 0, time.UTC)
	var hits [parts]int
	for n := range agents {
		identity := fmt.Sprintf("fleet-default/shop-%04d", n)
		now, most := start, time.Second
		for failures := 1; failures <= ramp; failures++ {
			at := RetryTime(failures, now, identity)
			if d := at.Sub(now); d < most/2 || d > most {
				t.Fatalf("%s, failure %d: again after %s", identity, failures, d)
			}
			now, most = at, 2*most
		}
		if took := now.Sub(start); took > RampTime {
			t.Fatalf("%s of ramp", took)
		}
		first := RetryTime(ramp+1, now, identity)
		if d := first.Sub(now); d <= 0 || d > RetryInterval {
			t.Fatalf("again after %s", d)
		}
		if second := RetryTime(ramp+2, first, identity); second.Sub(first) != RetryInterval {
			t.Fatalf("%s between two", second.Sub(first))
		}
		if reported := Retries(identity)(first.Add(-time.Second)); !reported.Equal(first) {
			t.Fatalf("it was expected at %s, and is at %s", reported, first)
		}
		hits[first.Sub(first.Truncate(RetryInterval))/time.Second]++
		if RetryTime(0, start, identity).Before(start) {
			t.Fatal("in the past")
		}
	}
	for second, n := range hits {
		if n < agents/parts/2 || n > agents/parts*2 {
			t.Errorf("%d of %d in second %d: %v", n, agents, second, hits)
		}
	}
}

func TestFirstVisit(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	cases := map[string]struct {
		why             string
		announced, next time.Time
		want            time.Time
	}{
		"Connected": {"it was always connected: its manager would miss it within minutes", time.Time{}, in(12 * time.Hour), now},
		"Started":   {"what was started again waits for its time", in(12 * time.Hour), in(12 * time.Hour), in(12 * time.Hour)},
		"Later":     {"a schedule that comes later: its word is kept", in(time.Hour), in(12 * time.Hour), in(time.Hour)},
		"Earlier":   {"one that comes earlier counts", in(12 * time.Hour), in(time.Hour), in(time.Hour)},
		"Overslept": {"it was off at its time", in(-time.Hour), in(23 * time.Hour), in(23 * time.Hour)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := FirstVisit(c.announced, c.next, now); !got.Equal(c.want) {
				t.Errorf("%s: want %s, got %s", c.why, c.want, got)
			}
		})
	}
}

func TestRead(t *testing.T) {
	now := time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		in    *fleet.ClusterCheckIn
		want  string // the schedule; empty: none
		error string
	}{
		"Nothing":  {},
		"Empty":    {in: &fleet.ClusterCheckIn{}},
		"Watch":    {in: &fleet.ClusterCheckIn{Mode: "watch", TimeZone: "Nowhere"}},
		"Poll":     {in: &fleet.ClusterCheckIn{Mode: "poll", Schedule: "0 3 * * *"}, want: "0 3 * * * (UTC)"},
		"Place":    {in: &fleet.ClusterCheckIn{Mode: "poll", Schedule: "@hourly", TimeZone: "Europe/Berlin"}, want: "@hourly (Europe/Berlin)"},
		"NoTimes":  {in: &fleet.ClusterCheckIn{Mode: "poll"}, error: "schedule: must be set with mode poll"},
		"NoMode":   {in: &fleet.ClusterCheckIn{Schedule: "@hourly"}, error: "schedule: counts only with mode poll"},
		"BadMode":  {in: &fleet.ClusterCheckIn{Mode: "now", Schedule: "@hourly"}, error: `mode: "now" is neither`},
		"BadTimes": {in: &fleet.ClusterCheckIn{Mode: "poll", Schedule: "often"}, error: `schedule "often"`},
		"BadPlace": {in: &fleet.ClusterCheckIn{Mode: "poll", Schedule: "@hourly", TimeZone: "Atlantis"}, error: "timeZone: unknown time zone Atlantis"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := Read(c.in, time.LoadLocation, now)
			if c.error != "" {
				if err == nil || !strings.Contains(err.Error(), c.error) {
					t.Errorf("want %q, got %v", c.error, err)
				}
				return
			}
			if err != nil || (s == nil) != (c.want == "") || s != nil && s.String() != c.want {
				t.Errorf("want %q, got %v, %v", c.want, s, err)
			}
			if again, err := Read(c.in, time.LoadLocation, now); err != nil || !again.Equal(s) || s != nil && s.Equal(nil) {
				t.Errorf("read again it is %v, %v", again, err)
			}
			text, err := Encode(c.in)
			back, err2 := Decode(text)
			if diff := cmp.Diff(c.in, back); err != nil || err2 != nil || diff != "" {
				t.Errorf("%v %v %s", err, err2, diff)
			}
		})
	}
	if _, err := Decode("{"); err == nil {
		t.Error("half a word is none")
	}
}
