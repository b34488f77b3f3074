package wire

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// While a proxy refuses connections no other process can take its port, so that
// the proxy can listen there again when it is healed.
func TestRefusedKeepsItsPort(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	c, err := NewTCPProxy(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	address := strings.TrimPrefix(c.URL(), "https://")
	for range 2 {
		if err := c.Set(Refused); err != nil {
			t.Fatal(err)
		}
		if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("want to be refused, got %v", err)
		}
		if other, err := net.Listen("tcp", address); err == nil {
			other.Close()
			t.Fatalf("another process listens at %s", address)
		}
		if err := c.Set(None); err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if err := server.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Accept(); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
}
