package webtest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

var errRefused = errors.New("the SOCKS client is refused")

// A SOCKS is a SOCKS5 proxy (RFC 1928) on loopback. It dials loopback for names
// below .test, because clients use no proxy for loopback itself.
type SOCKS struct {
	// URL holds the user name and password that the proxy wants (RFC 1929).
	URL *url.URL
	// Connects counts the connections that the proxy has made.
	Connects atomic.Int32
}

// StartSOCKS starts a SOCKS5 proxy. It ends with the test.
func StartSOCKS(t testing.TB, user, password string) *SOCKS {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := &SOCKS{URL: &url.URL{Scheme: "socks5", Host: l.Addr().String(), User: url.UserPassword(user, password)}}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

func (s *SOCKS) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	to, err := s.negotiate(conn)
	if err != nil {
		return
	}
	s.Connects.Add(1)
	both := func(dst io.Writer, src io.Reader) {
		_, _ = io.Copy(dst, src)
		_ = to.Close()
		_ = conn.Close()
	}
	go both(to, conn)
	both(conn, to)
}

// negotiate answers a client up to the open connection.
func (s *SOCKS) negotiate(conn net.Conn) (net.Conn, error) {
	skip := func(n int64) { _, _ = io.CopyN(io.Discard, conn, n) }
	skip(1)
	if !strings.Contains(counted(conn), "\x02") {
		_, _ = conn.Write([]byte{5, 0xff})
		return nil, errRefused
	}
	_, _ = conn.Write([]byte{5, 2})
	skip(1)
	user, password := counted(conn), counted(conn)
	if url.UserPassword(user, password).String() != s.URL.User.String() {
		_, _ = conn.Write([]byte{1, 1})
		return nil, errRefused
	}
	_, _ = conn.Write([]byte{1, 0})
	address, err := requested(conn)
	if err != nil {
		return nil, err
	}
	to, err := net.Dial("tcp", address)
	if err != nil {
		_, _ = conn.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
		return nil, err
	}
	_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	return to, nil
}

// requested reads the address that a client asks for.
func requested(conn net.Conn) (string, error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return "", err
	}
	host := ""
	if head[3] == 3 {
		host = counted(conn)
	} else {
		ip := make([]byte, net.IPv4len)
		_, _ = io.ReadFull(conn, ip)
		host = net.IP(ip).String()
	}
	if strings.HasSuffix(host, ".test") {
		host = "127.0.0.1"
	}
	var port [2]byte
	if _, err := io.ReadFull(conn, port[:]); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(int(binary.BigEndian.Uint16(port[:])))), nil
}

// counted reads a length in one byte and that many bytes.
func counted(conn net.Conn) string {
	var n [1]byte
	if _, err := io.ReadFull(conn, n[:]); err != nil {
		return ""
	}
	data := make([]byte, n[0])
	_, _ = io.ReadFull(conn, data)
	return string(data)
}
