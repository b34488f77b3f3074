//go:build !race

package raced

// Enabled reports that the race detector is on.
const Enabled = false
