// Package version says which build of Fleet this is.
package version

// Version and Commit are set when a release is built. A build from a working
// copy is "v0.1.0-dev".
var (
	Version = "v0.1.0-dev"
	Commit  = "unknown"
)

// Implementation is how this implementation names itself where others of the
// same API exist.
const Implementation = "fleet"
