// Package port keeps TCP ports of this machine for those who will listen on them:
// between the choice of a port and its use, and while who listens on it is away,
// the kernel may give it to anybody else.
package port

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Loopback is where most listen.
const Loopback = "127.0.0.1"

// Hold takes a port of an IPv4 address, any free one where port is 0, and keeps
// it until the file is closed: no other process gets it, not before a process
// listens there by Listen, or in another way that shares ports (SO_REUSEPORT),
// and not while that process is away.
//
// The socket takes no connection. It is bound alone, which fails where another
// process has the port, and shared only after that.
func Hold(host string, port int) (int, *os.File, error) {
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Is4() {
		return 0, nil, fmt.Errorf("hold port %d of %q: not an IPv4 address", port, host)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("hold a port: %w", err)
	}
	socket := os.NewFile(uintptr(fd), "port")
	got, err := bindShared(fd, &unix.SockaddrInet4{Port: port, Addr: addr.As4()})
	if err != nil {
		return 0, nil, errors.Join(fmt.Errorf("hold port %d of %s: %w", port, host, err), socket.Close())
	}
	return got, socket, nil
}

// bindShared binds past connections of an earlier process that linger (REUSEADDR),
// which is no right that anybody else gets, and shares the port after that.
func bindShared(fd int, addr *unix.SockaddrInet4) (int, error) {
	option := func(name, value int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, name, value) }
	if err := option(unix.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(fd, addr); err != nil {
		return 0, err
	}
	if err := errors.Join(option(unix.SO_REUSEADDR, 0), option(unix.SO_REUSEPORT, 1)); err != nil {
		return 0, err
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	in, ok := bound.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("socket has an address of type %T", bound)
	}
	return in.Port, nil
}

// Listen listens on a port that this user holds.
func Listen(host string, port int) (net.Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, set)
	}}
	return config.Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}
