// Package wire has what can lie between an agent and its manager, for tests: a
// proxy that can be cut in several ways, and a front that answers in the manager's
// place.
package wire

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
)

// A Fault is what is wrong with a Cord.
type Fault int

// Faults. With all but Lost a healed proxy is as good as before; connections that
// were Lost never come back, as after the restart of a router that translates
// addresses.
const (
	None    Fault = iota
	Refused       // connections end, new ones are refused: the server's process is gone
	Reset         // connections are reset, new ones as well: a firewall that says so
	Silent        // nothing arrives and neither side gets an error: a link that is down
	Lost          // as Silent, and what was open stays so for ever
)

// String is the name of the fault.
func (f Fault) String() string { return [...]string{"None", "Refused", "Reset", "Silent", "Lost"}[f] }

// A TCPProxy passes TCP connections on to a server.
type TCPProxy struct {
	target string
	port   int
	held   io.Closer // the port, also while connections are refused

	mu       sync.Mutex
	listener net.Listener // nil while it is closed
	fault    Fault
	changed  chan struct{} // closed when the fault changes
	pairs    map[*pair]bool
	opened   int
}

// NewTCPProxy listens on a free port of 127.0.0.1 and passes connections on to target,
// a host:port.
func NewTCPProxy(target string) (*TCPProxy, error) {
	number, held, err := port.Hold(port.Loopback, 0)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", target, err)
	}
	c := &TCPProxy{target: target, port: number, held: held, changed: make(chan struct{}), pairs: map[*pair]bool{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.listen(); err != nil {
		return nil, err
	}
	return c, nil
}

// URL is the address of the proxy's near end, for a server that speaks TLS.
func (c *TCPProxy) URL() string {
	return "https://" + net.JoinHostPort(port.Loopback, strconv.Itoa(c.port))
}

// Open is how many connections pass at the moment.
func (c *TCPProxy) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pairs)
}

// Opened is how many there have been.
func (c *TCPProxy) Opened() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened
}

// Set brings a fault about, or with None ends it.
func (c *TCPProxy) Set(f Fault) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
	close(c.changed)
	c.changed = make(chan struct{})
	for p := range c.pairs {
		switch f {
		case Refused, Reset:
			p.end(f == Reset)
			delete(c.pairs, p)
		case Lost:
			p.dead = true
		case None, Silent:
		}
	}
	if f == Refused {
		return c.hangUp()
	}
	return c.listen()
}

// Close ends the proxy.
func (c *TCPProxy) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.hangUp()
	_ = c.held.Close()
	for p := range c.pairs {
		p.end(false)
	}
	close(c.changed)
	c.changed = make(chan struct{})
	c.pairs = map[*pair]bool{}
}

// hangUp closes the listener if it is open; c.mu is held.
func (c *TCPProxy) hangUp() error {
	if c.listener == nil {
		return nil
	}
	l := c.listener
	c.listener = nil
	return l.Close()
}

// listen opens the listener if it is not open; c.mu is held.
func (c *TCPProxy) listen() error {
	if c.listener != nil {
		return nil
	}
	l, err := port.Listen(port.Loopback, c.port)
	if err != nil {
		return fmt.Errorf("listen for %s: %w", c.target, err)
	}
	c.listener = l
	go c.accept(l)
	return nil
}

func (c *TCPProxy) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go c.pass(conn)
	}
}

// pass carries one connection.
func (c *TCPProxy) pass(client net.Conn) {
	p := &pair{client: client, gone: make(chan struct{})}
	c.mu.Lock()
	if c.fault == Reset || c.fault == Refused { // it came before the listener was closed
		hard := c.fault == Reset
		c.mu.Unlock()
		p.end(hard)
		return
	}
	c.opened++
	c.pairs[p] = true
	p.dead = c.fault == Lost
	c.mu.Unlock()
	defer c.forget(p)
	if !c.flows(p) {
		return
	}
	server, err := net.Dial("tcp", c.target)
	if err != nil {
		p.end(false)
		return
	}
	p.join(server)
	var both sync.WaitGroup
	both.Go(func() { c.carry(p, server, client) })
	both.Go(func() { c.carry(p, client, server) })
	both.Wait()
}

// carry copies until one side ends, while the proxy passes anything.
func (c *TCPProxy) carry(p *pair, to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !c.flows(p) {
			return
		}
		if n > 0 {
			if _, writeErr := to.Write(buf[:n]); writeErr != nil {
				err = writeErr
			}
		}
		if err != nil {
			p.end(false)
			return
		}
	}
}

// flows waits until the proxy passes what a pair sends; false: never again.
func (c *TCPProxy) flows(p *pair) bool {
	for {
		c.mu.Lock()
		fault, changed, dead := c.fault, c.changed, p.dead
		c.mu.Unlock()
		if fault == None && !dead {
			return true
		}
		if dead {
			changed = nil
		}
		select {
		case <-p.gone:
			return false
		case <-changed:
		}
	}
}

func (c *TCPProxy) forget(p *pair) {
	p.end(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pairs, p)
}

// pair is a connection and how it goes on.
type pair struct {
	client net.Conn
	dead   bool // guarded by the proxy

	mu     sync.Mutex
	server net.Conn
	ended  bool
	gone   chan struct{}
}

func (p *pair) join(server net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		_ = server.Close()
	}
	p.server = server
}

// end closes both sides; hard: as a reset.
func (p *pair) end(hard bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	close(p.gone)
	for _, conn := range []net.Conn{p.client, p.server} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			if hard {
				_ = tcp.SetLinger(0)
			}
			_ = tcp.Close()
		}
	}
}
