package credential

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	first = "request-a-uid"
	space = "cattle-fleet-clusters-system"
	day   = 24 * time.Hour
)

var (
	start  = time.Date(2026, 8, 24, 12, 0, 0, 0, time.UTC)
	short  = Lifetimes{TTL: day, Grace: DefaultGrace}
	second = RotationAccount(first, "one")
	brief  = Offer{Namespace: space, Account: first, Renewal: RenewalAccount(first), Life: short}.String()
	moved  = Offer{Namespace: space, Account: second, Token: LastingToken(second)}.String()
	back   = Offer{Namespace: space, Account: first, Token: LastingToken(first)}.String()
)

func TestDecide(t *testing.T) {
	cases := map[string]struct {
		why   string
		state State
		want  Plan
	}{
		"Default": {
			why:   "an agent that was granted a lasting token needs nothing, and nothing is written for it",
			state: State{Accounts: []string{first}},
			want:  Plan{Account: first, Settled: true, Holders: []string{first}},
		},
		"Nothing": {
			why:   "an account that the manager has not made is left alone",
			state: State{},
			want:  Plan{},
		},
		"NothingToRotate": {
			why:   "a person who orders what cannot be done hears of it",
			state: State{Order: "one"},
			want:  Plan{Reason: ReasonForeign, Message: "no account of this agent is the manager's: to give it another credential, register it again with a registration token"},
		},
		"Rotate": {
			why:   "while the agent has not taken the new one both are good",
			state: State{Order: "one", Accounts: []string{first}},
			want: Plan{
				Account: second, Offer: moved, Holders: []string{first, second}, Fetch: []string{first, second}, Lasting: Have,
				Reason: ReasonPending, Message: pendingText,
			},
		},
		"Rotated": {
			why:   "when the agent says that it uses the new one, that before it goes",
			state: State{Order: "one", Accounts: []string{first, second}, Offered: moved, Uses: Digest(moved)},
			want:  Plan{Account: second, Offer: moved, Settled: true, Holders: []string{second}, Drop: []string{first}, Lasting: Have, Renewal: Gone},
		},
		"RotatedBefore": {
			why:   "without an order the agent stays with what it has",
			state: State{Accounts: []string{second}, Offered: moved, Uses: Digest(moved)},
			want:  Plan{Account: second, Offer: moved, Settled: true, Holders: []string{second}, Lasting: Have, Renewal: Gone},
		},
		"Registered": {
			why:   "an offer to an agent that registered before is not for this one",
			state: State{Accounts: []string{first}, Offered: Offer{Namespace: space, Account: "request-b", Token: "t"}.String(), Uses: "x"},
			want:  Plan{Account: first, Settled: true, Holders: []string{first}},
		},
		"SwitchedOn": {
			why:   "an agent keeps its lasting token until it renews others by itself",
			state: State{Life: short, Accounts: []string{first}},
			want: Plan{
				Account: first, Offer: brief, Holders: []string{first}, Fetch: []string{first}, Renewal: Have, Renew: true,
				Reason: ReasonPending, Message: pendingText, After: day,
			},
		},
		"Brief": {
			why:   "the lasting token goes when the agent does without",
			state: State{Life: short, Accounts: []string{first}, Offered: brief, Uses: Digest(brief), Seen: start},
			want: Plan{
				Account: first, Offer: brief, Settled: true, Holders: []string{first}, Fetch: []string{first}, Lasting: Gone, Renewal: Have, Renew: true,
				After: day,
			},
		},
		"SwitchedOff": {
			why:   "what renews its token stays until the agent has one that lasts",
			state: State{Accounts: []string{first}, Offered: brief, Uses: Digest(brief)},
			want: Plan{
				Account: first, Offer: back, Holders: []string{first}, Fetch: []string{first}, Lasting: Have,
				Reason: ReasonPending, Message: pendingText,
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := c.state
			s.Namespace, s.First, s.Now = space, first, start
			if s.Seen.IsZero() {
				s.Seen = start
			}
			s.Since = start.Add(-2 * time.Hour)
			if diff := cmp.Diff(c.want, Decide(s)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// An agent that was away comes back by itself for thirty days, and has to join
// again after that.
func TestDecideAway(t *testing.T) {
	cases := map[string]struct {
		why    string
		away   time.Duration
		up     time.Duration // the manager
		renew  bool
		reason string
		after  time.Duration
	}{
		"Here":          {"nothing to report", time.Minute, 90 * day, true, "", day - time.Minute + time.Second},
		"Ended":         {"its token has ended, and it may fetch another", 20 * day, 90 * day, true, ReasonExpired, lookAgain},
		"LastMoment":    {"a second before the end of the grace", 30*day - time.Second, 90 * day, true, ReasonExpired, 2 * time.Second},
		"Over":          {"it has to join again", 40 * day, 90 * day, false, ReasonGraceOver, lookAgain},
		"ManagerAway":   {"they could not come back while the manager was away: no agent is given up when it starts", 40 * day, time.Minute, true, ReasonExpired, lookAgain},
		"ManagerIsBack": {"after an hour it knows", 40 * day, Timeout, false, ReasonGraceOver, lookAgain},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := Decide(State{
				Life: short, Namespace: space, First: first, Accounts: []string{first}, Offered: brief, Uses: Digest(brief),
				Seen: start.Add(-c.away), Now: start, Since: start.Add(-c.up),
			})
			if p.Renew != c.renew || p.Reason != c.reason || p.After != c.after || !p.Settled || len(p.Drop) > 0 {
				t.Errorf("%s: %+v", c.why, p)
			}
			if len(p.Message) > 200 {
				t.Errorf("the message has %d characters", len(p.Message))
			}
		})
	}
}

func TestOffer(t *testing.T) {
	for name, text := range map[string]string{"Lasting": moved, "Brief": brief} {
		o, err := ParseOffer(text)
		if err != nil || o.String() != text {
			t.Errorf("%s: %v, %s instead of %s", name, err, o, text)
		}
	}
	for name, text := range map[string]string{
		"Empty": "", "Word": "x", "NoAccount": `{"namespace":"a"}`, "NoToken": `{"namespace":"a","account":"b"}`,
		"NoRenewal": `{"namespace":"a","account":"b","ttl":"24h","grace":"720h"}`,
		"TooShort":  `{"namespace":"a","account":"b","renewal":"r","ttl":"1s","grace":"720h"}`,
	} {
		if _, err := ParseOffer(text); err == nil {
			t.Errorf("%s: %q is taken for an offer", name, text)
		}
	}
}

func TestSpan(t *testing.T) {
	token := func(claims string) string {
		return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s"
	}
	s := SpanOf(token(fmt.Sprintf(`{"iat":%d,"exp":%d}`, start.Unix(), start.Add(day).Unix())))
	if !s.Issued.Equal(start) || !s.Expires.Equal(start.Add(day)) {
		t.Fatalf("got %+v", s)
	}
	for name, text := range map[string]string{"NoClaims": token(`{}`), "NotJSON": token("x"), "NotBase64": "a.*.c", "OnePart": "abc"} {
		if !SpanOf(text).Endless() {
			t.Errorf("%s: has an end", name)
		}
	}
	cases := map[string]struct {
		why  string
		now  time.Duration
		next time.Duration
		want bool
	}{
		"Fresh":    {"there is time", time.Hour, time.Hour + time.Minute, false},
		"Half":     {"not before half of its life", 12*time.Hour - time.Minute, 12 * time.Hour, false},
		"Due":      {"all have renewed it after three fifths", 15 * time.Hour, 15*time.Hour + time.Minute, true},
		"NextLate": {"an agent that is connected next when it has ended renews it now", time.Hour, 25 * time.Hour, true},
		"Ended":    {"too late is not never", 2 * day, 2 * day, true},
	}
	for name, c := range cases {
		if got := s.Renew("ws/cluster", start.Add(c.now), start.Add(c.next)); got != c.want {
			t.Errorf("%s: %s: got %v", name, c.why, got)
		}
	}
	if (Validity{}).Renew("x", start, start) {
		t.Error("a token that lasts is renewed")
	}
}

func TestParseLife(t *testing.T) {
	cases := map[string]struct {
		ttl, grace string
		want       Lifetimes
		warned     string
	}{
		"Default":  {"", "", Lifetimes{Grace: DefaultGrace}, ""},
		"Off":      {"0", "240h", Lifetimes{Grace: 240 * time.Hour}, ""},
		"On":       {"24h", "720h", Lifetimes{TTL: day, Grace: 30 * day}, ""},
		"TooShort": {"1m", "", Lifetimes{Grace: DefaultGrace}, "credentialTTL"},
		"Days":     {"24h", "30d", Lifetimes{TTL: day, Grace: DefaultGrace}, "credentialGrace"},
		"Negative": {"-24h", "", Lifetimes{Grace: DefaultGrace}, "credentialTTL"},
	}
	for name, c := range cases {
		got, warnings := ParseLife(c.ttl, c.grace)
		if got != c.want || (len(warnings) > 0) != (c.warned != "") || c.warned != "" && !strings.HasPrefix(warnings[0], c.warned) {
			t.Errorf("%s: got %+v, %q", name, got, warnings)
		}
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		30 * day: "30d", day: "24h", 36 * time.Hour: "36h", 90 * time.Minute: "90m", 90 * time.Second: "1m30s",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%s: got %q", d, got)
		}
	}
}
