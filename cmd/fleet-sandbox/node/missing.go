package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// plugins is where Debian keeps the programs that connect pods.
const plugins = "/usr/lib/cni"

// searchPath is the PATH of everything that runs on a machine.
const searchPath = "/usr/sbin:/usr/bin:/sbin:/bin"

// programs are what a machine needs, with the Debian package that has it.
var programs = []struct{ path, pkg string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"containerd-shim-runc-v2", "containerd"},
	{"runc", "runc"},
	{plugins + "/bridge", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
	{"unshare", "util-linux"},
}

// Packages are Debian's packages that are not installed and needed, sorted as they
// are needed.
func Packages() []string {
	var missing []string
	for _, p := range programs {
		if _, err := lookPath(p.path); err != nil && (len(missing) == 0 || missing[len(missing)-1] != p.pkg) {
			missing = append(missing, p.pkg)
		}
	}
	return missing
}

// lookPath finds a program on the machines' own search path.
func lookPath(name string) (string, error) {
	if filepath.IsAbs(name) {
		_, err := os.Stat(name)
		return name, err
	}
	for _, dir := range filepath.SplitList(searchPath) {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("find %q: %w", name, exec.ErrNotFound)
}

// Missing says what keeps real pods from running here, in one line that says what
// to do about it, or nil.
func Missing() error {
	if os.Geteuid() != 0 {
		return errors.New("real pods need root")
	}
	if list := Packages(); len(list) > 0 {
		return fmt.Errorf("real pods need Debian's packages %s: apt-get install --no-install-recommends %[1]s", strings.Join(list, " "))
	}
	if out, err := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("real pods need namespaces of their own, which this machine does not give: %s", strings.TrimSpace(string(out)))
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil || len(groups) == 0 {
		return errors.New("real pods need control groups, which this machine does not have")
	}
	return nil
}
