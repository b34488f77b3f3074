package cluster

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// holdPort takes a port of loopback, any free one where port is 0, and keeps
// it until the file is closed: nobody else gets it, not before the API server
// has started and not while it restarts. The API server shares it
// (--permit-port-sharing).
//
// The socket takes no connection. It is bound alone, which fails where somebody
// has the port, and shared only after that.
func holdPort(port int) (int, *os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, nil, fmt.Errorf("hold a port: %w", err)
	}
	socket := os.NewFile(uintptr(fd), "port")
	got, err := bindShared(fd, port)
	if err != nil {
		return 0, nil, errors.Join(fmt.Errorf("hold port %d of %s: %w", port, loopback, err), socket.Close())
	}
	return got, socket, nil
}

// bindShared binds past connections of an earlier process that linger (REUSEADDR),
// which is no right that anybody else gets, and shares the port after that.
func bindShared(fd, port int) (int, error) {
	addr := &unix.SockaddrInet4{Port: port, Addr: [4]byte(net.ParseIP(loopback).To4())}
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
