package webhook

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are in memory, so that time can be skipped.
type pipes struct {
	conns chan net.Conn
	close func()
}

func newPipes() pipes {
	conns := make(chan net.Conn)
	return pipes{conns, sync.OnceFunc(func() { close(conns) })}
}

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error {
	p.close()
	return nil
}

func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// Clients that send slowly, or more headers than allowed, are cut off.
func TestSlowClients(t *testing.T) {
	const request = "POST / HTTP/1.1\r\nHost: h\r\n"
	for name, c := range map[string]struct {
		begin, piece string // what the client sends at first, and then each second
		least, most  time.Duration
		answer       string
	}{
		"Header":     {begin: request, piece: "A: b\r\n", least: headerTime, most: headerTime + 2*time.Second},
		"Body":       {begin: request + "Content-Length: 100000\r\n\r\n", piece: "x", least: readTime, most: readTime + 2*time.Second, answer: "HTTP/1.1 400"},
		"BigHeaders": {begin: request + "A: " + strings.Repeat("x", maxHeaderBytes+8<<10), most: time.Second, answer: "HTTP/1.1 431"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				listener := newPipes()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.Copy(io.Discard, r.Body); err != nil {
						w.WriteHeader(http.StatusBadRequest)
					}
				})
				go func() { ended <- (&server{handler: handler, listener: listener}).Run(ctx) }()
				client, remote := net.Pipe()
				listener.conns <- remote
				start := time.Now()
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					_, err := io.WriteString(client, c.begin)
					for err == nil {
						time.Sleep(time.Second)
						_, err = io.WriteString(client, c.piece)
					}
				}()
				answer, _ := io.ReadAll(client)
				if took := time.Since(start); took < c.least || took > c.most || !strings.HasPrefix(string(answer), c.answer) {
					t.Errorf("cut after %s with %q", took, answer)
				}
				_ = client.Close()
				<-sent
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
