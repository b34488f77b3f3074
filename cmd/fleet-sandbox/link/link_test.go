package link

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// echo answers each line with the same line.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, l *Link) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.Port()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func say(conn net.Conn, text string) (string, error) {
	if _, err := fmt.Fprintln(conn, text); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return line, err
}

// TestCutAndHeal: a cut ends open connections and refuses new ones; after a
// heal new ones pass, at the same port.
func TestCutAndHeal(t *testing.T) {
	l, err := New(0, echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Cut()
	conn := dial(t, l)
	if got, err := say(conn, "hello"); err != nil || got != "hello\n" {
		t.Fatalf("want hello, got %q, %v", got, err)
	}
	l.Cut()
	if l.Healthy() {
		t.Error("a cut link is not healthy")
	}
	if got, err := say(conn, "anybody?"); err == nil {
		t.Errorf("an open connection outlived the cut: %q", got)
	}
	if _, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", l.Port())); err == nil {
		t.Error("a new connection passed the cut")
	}
	for range 2 { // the second one has nothing to do
		if err := l.Heal(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := say(dial(t, l), "back"); err != nil || got != "back\n" {
		t.Errorf("want back, got %q, %v", got, err)
	}
}

// TestHalfClosed: a client that has said all still gets its answer.
func TestHalfClosed(t *testing.T) {
	l, err := New(0, echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Cut()
	conn := dial(t, l).(*net.TCPConn)
	fmt.Fprint(conn, "the whole question")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "the whole question" {
		t.Errorf("want the answer, got %q, %v", got, err)
	}
}

// TestNoServer: a link to nowhere ends connections at once.
func TestNoServer(t *testing.T) {
	l, err := New(0, "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Cut()
	if got, err := say(dial(t, l), "hello"); err == nil {
		t.Errorf("a link without a server answered %q", got)
	}
}
