package reconcile

import "time"

// Backoff returns the delay after a number of failures in a row: first, doubled with each
// further failure, and at most last. A wait.Backoff would count the failures itself.
func Backoff(first, last time.Duration, failures int) time.Duration {
	delay := first
	for range failures - 1 {
		if delay *= 2; delay >= last {
			return last
		}
	}
	return delay
}
