// Package link is a network cable that can be cut: a TCP proxy on loopback in
// front of one server.
package link

import (
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
)

// A Link passes connections on to its target until it is cut.
type Link struct {
	target string
	port   int
	held   io.Closer // the port, also while it is cut

	mu       sync.Mutex
	listener net.Listener // nil while cut
	open     map[net.Conn]bool
}

// New listens on 127.0.0.1 at a port (any free one where 0) and passes
// connections on to target, a host:port.
func New(number int, target string) (*Link, error) {
	number, held, err := port.Hold(port.Loopback, number)
	if err != nil {
		return nil, fmt.Errorf("link to %s: %w", target, err)
	}
	l := &Link{target: target, port: number, held: held, open: map[net.Conn]bool{}}
	return l, l.Heal()
}

// Port is the port on 127.0.0.1; it stays the same for the link's life.
func (l *Link) Port() int { return l.port }

// Healthy reports whether connections pass.
func (l *Link) Healthy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listener != nil
}

// Heal lets connections pass. It does nothing to a healthy link.
func (l *Link) Heal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		return nil
	}
	listener, err := port.Listen(port.Loopback, l.port)
	if err != nil {
		return fmt.Errorf("heal link to %s: %w", l.target, err)
	}
	l.listener = listener
	go l.accept(listener)
	return nil
}

// Cut ends all connections and refuses new ones until Heal.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return
	}
	_ = l.listener.Close() // either way the listener accepts no connection any more
	l.listener = nil
	for conn := range l.open {
		_ = conn.Close()
	}
	clear(l.open)
}

// Close is Cut for ever: the port is anybody's then.
func (l *Link) Close() {
	l.Cut()
	_ = l.held.Close()
}

func (l *Link) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // cut
		}
		go l.pass(listener, conn)
	}
}

// pass carries one connection in both directions until one side ends it.
func (l *Link) pass(listener net.Listener, client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		return // the client sees a closed connection, as from a dead server
	}
	defer server.Close()
	if !l.keep(listener, client, server) {
		return
	}
	defer l.forget(client, server)
	var both sync.WaitGroup
	both.Go(func() { carry(server, client) })
	both.Go(func() { carry(client, server) })
	both.Wait()
}

// carry copies until its source ends, and passes that end on.
func carry(to, from net.Conn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close() // cut, or reset by one side: reset the other
		_ = from.Close()
		return
	}
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

// keep remembers connections to be cut; false if the link was cut since the
// client was accepted.
func (l *Link) keep(listener net.Listener, conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != listener {
		return false
	}
	for _, conn := range conns {
		l.open[conn] = true
	}
	return true
}

func (l *Link) forget(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range conns {
		delete(l.open, conn)
	}
}
