package port

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
)

// TestHold: only processes that share a held port get it, and it is free when it
// is released.
func TestHold(t *testing.T) {
	port, held, err := Hold(Loopback, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	alone := func() error {
		l, err := net.Listen("tcp", net.JoinHostPort(Loopback, strconv.Itoa(port)))
		if err == nil {
			l.Close()
		}
		return err
	}
	for range 2 { // one who listens again as well
		l, err := Listen(Loopback, port)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if err := alone(); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("want a port in use, got %v", err)
		}
	}
	if _, _, err := Hold(Loopback, port); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("want a port in use, got %v", err)
	}
	held.Close()
	if err := alone(); err != nil {
		t.Error(err)
	}
}

// TestBlock: no caller gets a port that another one was given, listened on or not,
// before it is released.
func TestBlock(t *testing.T) {
	one, release, err := Block(20)
	if err != nil {
		t.Fatal(err)
	}
	two, free, err := Block(20)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	if one == two {
		t.Errorf("both were given the block from %d", one)
	}
	release()
	again, free, err := Block(20)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	if again > one {
		t.Errorf("the block from %d was given back, and that from %d was given out", one, again)
	}
	if _, _, err := Block(51); !errors.Is(err, ErrNoBlock) {
		t.Errorf("want no block, got %v", err)
	}
}
