//go:build !race

package raced

// Enabled tells that the race detector is on.
const Enabled = false
