//go:build race

package archive_test

// raced reports that the race detector is on: it allocates on its own account.
const raced = true
