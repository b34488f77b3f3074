package rollout

import "fmt"

// ZeroLimit returns the limit that is 0 and for which a target waits by the reason of its
// Step, as people find it in the strategy: such a target is never let through. It is empty
// for every other reason.
func ZeroLimit(reason string) string {
	switch reason {
	case reasonFrozenNew:
		return "rolloutStrategy.maxNew"
	case fmt.Sprintf(reasonFull, 0):
		return "rolloutStrategy.maxUnavailable"
	}
	var quoted string
	if _, err := fmt.Sscanf(reason, reasonNarrow, &quoted, new(int)); err != nil {
		return ""
	}
	if reason != fmt.Sprintf(reasonNarrow, quoted, 0) {
		return ""
	}
	return fmt.Sprintf("maxUnavailable of partition %q in rolloutStrategy", quoted)
}

// Queued returns the earlier partition for which a target waits by the reason of its Step.
// It is empty for every other reason.
func Queued(reason string) string {
	var quoted string
	if _, err := fmt.Sscanf(reason, reasonQueued, &quoted); err != nil || reason != fmt.Sprintf(reasonQueued, quoted) {
		return ""
	}
	return quoted
}
