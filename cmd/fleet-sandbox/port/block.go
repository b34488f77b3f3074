package port

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Ports of blocks are outside of the range from which Linux assigns ports.
const (
	firstOfBlocks = 10000
	lastOfBlocks  = 19999
	// blockSize is by how much two blocks differ, and the most that one has.
	blockSize = 50
)

// ErrNoBlock is returned by Block where nothing is free.
var ErrNoBlock = errors.New("no block of free ports")

// Block finds n ports of loopback in a row, at most 50, on which no process listens.
// They are the caller's until release: no other process of this user that calls Block
// gets them, whether a process listens on them yet or not.
func Block(n int) (first int, release func(), err error) {
	if n > blockSize {
		return 0, nil, fmt.Errorf("%w: %d are too many", ErrNoBlock, n)
	}
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("fleet-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, nil, fmt.Errorf("reserve ports: %w", err)
	}
	for first := firstOfBlocks; first+blockSize-1 <= lastOfBlocks; first += blockSize {
		lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(first)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return 0, nil, fmt.Errorf("reserve ports: %w", err)
		}
		// The kernel gives it back when this process ends.
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil && free(first, n) {
			return first, func() { _ = lock.Close() }, nil
		}
		_ = lock.Close()
	}
	return 0, nil, ErrNoBlock
}

// free reports whether no process listens on any of n ports.
func free(first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort(Loopback, strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
