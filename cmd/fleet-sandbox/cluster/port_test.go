package cluster

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHoldPort: a held port is nobody's but of those who share it, and free
// when it is let go.
func TestHoldPort(t *testing.T) {
	port, held, err := holdPort(0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, set)
	}}
	listen := func(config net.ListenConfig) error {
		l, err := config.Listen(context.Background(), "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			l.Close()
		}
		return err
	}
	for range 2 { // an API server that is started again as well
		if err := listen(shared); err != nil {
			t.Error(err)
		}
		if err := listen(net.ListenConfig{}); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("want a port in use, got %v", err)
		}
	}
	if _, _, err := holdPort(port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("want a port in use, got %v", err)
	}
	held.Close()
	if err := listen(net.ListenConfig{}); err != nil {
		t.Error(err)
	}
}
