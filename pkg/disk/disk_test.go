package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/disk"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func TestFault(t *testing.T) {
	file := func(errno syscall.Errno) error {
		return fmt.Errorf("read pack: %w", &fs.PathError{Op: "write", Path: "/tmp/secret/pack123", Err: errno})
	}
	dial := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
	}
	cases := map[string]struct {
		why  string
		err  error
		says string // empty: not local
	}{
		"NoSpace":         {why: "the disk is full", err: file(syscall.ENOSPC), says: "free space"},
		"Quota":           {why: "so is the share of it", err: file(syscall.EDQUOT), says: "free space"},
		"FileSize":        {why: "the process may write no larger file", err: file(syscall.EFBIG), says: "free space"},
		"ReadOnly":        {why: "nothing can be written", err: file(syscall.EROFS), says: "writable"},
		"Denied":          {why: "the folder is another user's", err: file(syscall.EACCES), says: "writable"},
		"NotPermitted":    {why: "the folder is another user's", err: file(syscall.EPERM), says: "writable"},
		"Broken":          {why: "the disk is", err: file(syscall.EIO), says: "disk"},
		"Renamed":         {why: "a rename names two files", err: &os.LinkError{Op: "rename", Old: "a", New: "b", Err: syscall.EACCES}, says: "writable"},
		"OpenFiles":       {why: "a connection is a file, too", err: dial(syscall.EMFILE), says: "open files"},
		"MachineFiles":    {why: "of all processes", err: file(syscall.ENFILE), says: "of the machine"},
		"Memory":          {why: "whatever call returns it", err: dial(syscall.ENOMEM), says: "memory"},
		"BareErrno":       {why: "libraries drop the file's name", err: fmt.Errorf("index pack: %w", syscall.ENOSPC), says: "free space"},
		"Again":           {why: "it is one already", err: fmt.Errorf("keep chart: %w", disk.Fault(file(syscall.ENOSPC))), says: "free space"},
		"FirewallDenies":  {why: "the network says so", err: dial(syscall.EACCES)},
		"FirewallForbids": {why: "the network says so", err: dial(syscall.EPERM)},
		"Refused":         {why: "the remote is not there", err: dial(syscall.ECONNREFUSED)},
		"Missing":         {why: "a file of the repository", err: file(syscall.ENOENT)},
		"Remote":          {why: "its words are not an error number", err: errors.New("no space left on device")},
		"None":            {why: "nothing failed"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := disk.Fault(c.err)
			if c.says == "" {
				if got != nil {
					t.Errorf("%s: got %v", c.why, got)
				}
				return
			}
			if !reconcile.IsRequeue(got) || reconcile.ReasonOf(got) != reconcile.ReasonLocal || !strings.Contains(got.Error(), c.says) || strings.Contains(got.Error(), "/tmp") {
				t.Errorf("%s: got %v", c.why, got)
			}
		})
	}
}
