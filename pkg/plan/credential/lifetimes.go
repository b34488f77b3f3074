package credential

import (
	"fmt"
	"time"
)

// Limits and defaults of the settings. No API server gives tokens for less than
// ten minutes.
const (
	MinTTL       = 10 * time.Minute
	MaxTTL       = 365 * 24 * time.Hour
	DefaultGrace = 30 * 24 * time.Hour
	MaxGrace     = 5 * 365 * 24 * time.Hour
)

// A Lifetimes is how long the credentials of agents are valid.
type Lifetimes struct {
	TTL time.Duration // of a token; 0: until it is revoked
	// Grace is how long after its last check-in an agent whose token has ended may
	// fetch a new one. It has no meaning without TTL.
	Grace time.Duration
}

// ParseLife reads the settings credentialTTL and credentialGrace: durations like
// 24h; "" and "0" are off for the first and 720h for the second. A value that
// makes no sense is dropped with a warning.
func ParseLife(ttl, grace string) (Lifetimes, []string) {
	l := Lifetimes{Grace: DefaultGrace}
	var warnings []string
	if d, err := duration(ttl, MaxTTL); err != nil {
		warnings = append(warnings, fmt.Sprintf("credentialTTL: %v; credentials last until they are revoked", err))
	} else {
		l.TTL = d
	}
	if d, err := duration(grace, MaxGrace); err != nil {
		warnings = append(warnings, fmt.Sprintf("credentialGrace: %v, %s counts", err, DefaultGrace))
	} else if d > 0 {
		l.Grace = d
	}
	return l, warnings
}

// duration reads a time from MinTTL to most; "" and "0" are 0.
func duration(text string, most time.Duration) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d != 0 && (d < MinTTL || d > most) {
		return 0, fmt.Errorf("%q is not a duration from %s to %s", text, MinTTL, most)
	}
	return d, nil
}

// RenewalTTL returns how long the token lasts that an agent keeps for the case that its
// other one has ended: from any check-in on for the time of grace at least.
func (l Lifetimes) RenewalTTL() time.Duration { return l.Grace + l.TTL }
