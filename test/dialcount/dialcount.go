// Package dialcount counts the connections that a test causes, to prove that an
// address is not dialled.
package dialcount

import (
	"net"
	"sync/atomic"
	"testing"
)

// Listen listens at an address of this machine until the test ends, closes what
// connects at once, and counts it. The test is skipped where there is no such address.
func Listen(t testing.TB, at string) (endpoint string, connections *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Skipf("this machine has no address %s: %v", at, err)
	}
	t.Cleanup(func() { _ = l.Close() })
	connections = &atomic.Int64{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = c.Close()
		}
	}()
	return l.Addr().String(), connections
}
