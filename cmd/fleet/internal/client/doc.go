// Package client connects to an API server and reads the objects of a fleet: once, in pages,
// and as they change.
package client
