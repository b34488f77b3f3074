package install

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Week is how long a token lives by default.
const Week = 7 * 24 * time.Hour

// longest is the longest ttl that the API accepts, rounded down.
const longest = 290 * 365 * 24 * time.Hour

// long are the units that Go's durations lack, in the order in which they may
// stand before the others.
var long = regexp.MustCompile(`^(?:(\d+)w)?(?:(\d+)d)?(.*)$`)

// ParseLifetime reads a lifetime: numbers with the units w, d, h, m and s, largest first,
// such as 7d, 1w, 1d12h, 90m. 0 is forever.
func ParseLifetime(text string) (time.Duration, error) {
	refuse := func(why string) (time.Duration, error) {
		return 0, fmt.Errorf("lifetime %q: %s; write for example 7d, 1w, 12h, or 0 for ever", text, why)
	}
	trimmed := strings.TrimSpace(text)
	if trimmed == "0" {
		return 0, nil
	}
	if trimmed == "" {
		return refuse("it is empty")
	}
	if _, err := strconv.ParseFloat(trimmed, 64); err == nil {
		return refuse("it has no unit")
	}
	parts := long.FindStringSubmatch(trimmed)
	total := time.Duration(0)
	for i, unit := range []time.Duration{Week, 24 * time.Hour} {
		if parts[i+1] == "" {
			continue
		}
		n, err := strconv.Atoi(parts[i+1])
		if err != nil || time.Duration(n) > longest/unit {
			return refuse("it is too long")
		}
		total += time.Duration(n) * unit
	}
	if parts[3] != "" {
		d, err := time.ParseDuration(parts[3])
		if err != nil {
			return refuse("it cannot be read")
		}
		if d < 0 || strings.ContainsAny(parts[3][:1], "+-") {
			return refuse("it has a sign")
		}
		total += d
	}
	switch {
	case total > longest:
		return refuse("it is too long")
	case total != 0 && total < time.Second:
		return refuse("it is shorter than a second")
	}
	return total, nil
}
