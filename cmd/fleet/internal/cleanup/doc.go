// Package cleanup deletes what a manager of rancher/fleet (the reference) has left behind,
// for fleet cleanup.
package cleanup
