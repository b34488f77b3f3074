package node

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// enclosure prepares the namespaces and runs the command in them. The shell
// stays: as the first process it takes care of orphans, such as the shims of
// containers. What containerd, its plugins and the kubelet write into folders
// that cannot be configured goes into memory.
const enclosure = `set -e
for d in /run /var/log /var/lib/cni /var/lib/kubelet; do
	mkdir -p "$d"
	mount -t tmpfs -o mode=755 tmpfs "$d"
done
ip link set lo up
set +e
"$@"
code=$?
exit $code
`

// Enclosed is a command that runs argv in mount, network and process namespaces of
// its own. When it ends, in whatever way, all that was started in it has ended. It
// ends with ctx, and with this process. It has neither stdin nor output yet.
func Enclosed(ctx context.Context, argv ...string) *exec.Cmd {
	args := []string{
		"--mount", "--propagation", "private", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", enclosure, "enclosed",
	}
	cmd := exec.CommandContext(ctx, "unshare", append(args, argv...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// groupsOf is where containerd puts the control groups of containers.
const groupsOf = "k8s.io"

// Sweep removes the empty control groups that ended containers have left.
func Sweep() {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/" + groupsOf) // no error: the pattern is right
	for _, root := range append(roots, "/sys/fs/cgroup/"+groupsOf) {
		var groups []string
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				groups = append(groups, path)
			}
			return nil // what is gone needs no removal
		})
		slices.Reverse(groups) // the innermost first
		for _, path := range groups {
			_ = syscall.Rmdir(path) // those in use stay
		}
	}
}

// Inside reports whether this process is the enclosed one.
func Inside() bool { return os.Getenv(insideEnv) != "" }

// insideEnv marks the environment of enclosed processes.
const insideEnv = "FLEET_SANDBOX_ENCLOSED"

// InsideEnv is what to add to the environment of an enclosed process, so that
// Inside is true in it.
func InsideEnv() string { return insideEnv + "=1" }
