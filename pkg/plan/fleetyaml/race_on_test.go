//go:build race

package fleetyaml

// raced tells that the race detector is on: it allocates on its own account.
const raced = true
