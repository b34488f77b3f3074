//go:build unix

package bundlesource

import (
	"os"
	"syscall"
)

// locks reports that the system can say whether a process still lives.
const locks = true

// tryLockFile locks a file until it is closed, if no other process has locked it. It
// reports whether it did.
func tryLockFile(f *os.File) bool {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
