// Package disk finds out which errors of the operating system are faults of this
// process's own disk, memory or number of open files, and how much room there is.
package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const (
	moreRoom  = "free space in the folder for temporary files of this process, or give it more"
	writable  = "make the folder for temporary files of this process writable"
	moreFiles = "raise the limit of open files of this process"
)

// local is what helps against an error of the operating system that is never a
// remote's, whatever call reports it.
var local = map[syscall.Errno]string{
	syscall.ENOSPC: moreRoom,
	syscall.EDQUOT: moreRoom,
	syscall.EFBIG:  moreRoom,
	syscall.EROFS:  writable,
	syscall.EMFILE: moreFiles,
	syscall.ENFILE: "raise the limit of open files of the machine",
	syscall.ENOMEM: "give this process more memory",
}

// localFile is the same for errors that a network reports, too: they are local
// where a file is concerned.
var localFile = map[syscall.Errno]string{
	syscall.EACCES: writable,
	syscall.EPERM:  writable,
	syscall.EIO:    "replace the disk of the folder for temporary files of this process",
}

// Fault returns err as a reconcile.RequeueAfter with reconcile.ReasonLocal if it comes from this
// process's own disk, memory or number of open files; else nil. The text names no
// file.
func Fault(err error) error {
	var errno syscall.Errno
	if reconcile.ReasonOf(err) == reconcile.ReasonLocal {
		return err
	}
	if !errors.As(err, &errno) {
		return nil
	}
	hint := local[errno]
	if hint == "" && onFile(err) {
		hint = localFile[errno]
	}
	if hint == "" {
		return nil
	}
	return reconcile.LocalError(errno.Error(), hint)
}

// NoRoom is the fault of a folder that has no room for a download.
func NoRoom(why string) error { return reconcile.LocalError(why, moreRoom) }

func onFile(err error) bool {
	var path *fs.PathError
	var link *os.LinkError
	return errors.As(err, &path) || errors.As(err, &link)
}
