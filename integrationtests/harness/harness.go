// Package harness gives integration tests the real parts they run against:
// control planes, whole fleets with the binaries, credentials and rights of
// production, git repositories over HTTP, and the audit logs that record what
// happened. It uses the sandbox's own packages.
package harness
