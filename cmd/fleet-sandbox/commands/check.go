package commands

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
)

// What a sandbox needs, as measured with room to spare.
const (
	clusterMemoryBytes = 640 << 20 // one control plane
	fleetMemoryBytes   = 512 << 20 // manager, agents and launcher
	clusterDiskBytes   = 400 << 20 // etcd, logs and audit log of one cluster
	buildDiskBytes     = 4 << 30   // Go's caches for the Kubernetes build
)

// A refusal is an error with advice below it.
type refusal struct {
	text   string
	advice []string
}

func (r *refusal) Error() string { return r.text }

// Details are the lines to print below Error.
func (r *refusal) Details() []string { return r.advice }

// A machine is what there is to run on.
type machine struct {
	goVersion   string
	gitVersion  string
	memoryBytes uint64 // free
	diskBytes   uint64 // free, where the state folder is
}

// lookAtMachine finds out what there is; without git or go it fails.
func lookAtMachine(ctx context.Context, p place, b kubebin.Builder) (machine, error) {
	var m machine
	git, err := exec.LookPath("git")
	if err != nil {
		return m, errors.New("git is not installed: the sandbox serves repositories with it")
	}
	out, err := exec.CommandContext(ctx, git, "version").Output()
	if err != nil {
		return m, fmt.Errorf("ask git for its version: %w", err)
	}
	m.gitVersion = strings.TrimPrefix(strings.TrimSpace(string(out)), "git version ")
	if m.goVersion, err = b.GoVersion(ctx); err != nil {
		return m, err
	}
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return m, fmt.Errorf("look at memory: %w", err)
	}
	if m.memoryBytes, err = parseMemory(string(data)); err != nil {
		return m, err
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(p.Base, &stat); err != nil {
		return m, fmt.Errorf("look at disk: %w", err)
	}
	m.diskBytes = stat.Bavail * uint64(stat.Bsize)
	return m, nil
}

// parseMemory reads the available memory from the text of /proc/meminfo.
func parseMemory(text string) (uint64, error) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "MemAvailable:")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) == 2 && fields[1] == "kB" {
			kib, err := strconv.ParseUint(fields[0], 10, 53)
			if err == nil {
				return kib << 10, nil
			}
		}
	}
	return 0, errors.New("look at memory: /proc/meminfo has no MemAvailable in kB")
}

func (m machine) String() string {
	return fmt.Sprintf("go %s, git %s, %s memory free, %s disk free", m.goVersion, m.gitVersion, gib(m.memoryBytes), gib(m.diskBytes))
}

// memoryNeeded is for a fleet of so many clusters, the management one included.
func memoryNeeded(clusters int) uint64 {
	return uint64(clusters)*clusterMemoryBytes + fleetMemoryBytes
}

// diskNeeded is for a fleet of so many clusters; building adds Go's caches.
func diskNeeded(clusters int, building bool) uint64 {
	need := uint64(clusters) * clusterDiskBytes
	if building {
		need += buildDiskBytes
	}
	return need
}

// checkRoom refuses a fleet that memory or disk is too small for.
func checkRoom(m machine, p place, downstream int, building bool) error {
	clusters := downstream + 1
	if need := memoryNeeded(clusters); need > m.memoryBytes {
		advice := []string{"(--force to try anyway)"}
		if fit := fits(m.memoryBytes); fit > 0 {
			advice = []string{fmt.Sprintf("%d would fit: fleet-sandbox up --clusters %d        (--force to try anyway)", fit, fit)}
		}
		return &refusal{
			text:   fmt.Sprintf("%d clusters need about %s of memory, %s are free", clusters, gib(need), gib(m.memoryBytes)),
			advice: advice,
		}
	}
	if need := diskNeeded(clusters, building); need > m.diskBytes {
		return &refusal{
			text:   fmt.Sprintf("%d clusters need about %s of disk in %s, %s are free", clusters, gib(need), short(p.Base), gib(m.diskBytes)),
			advice: []string{"XDG_CACHE_HOME can point to another disk        (--force to try anyway)"},
		}
	}
	return nil
}

// fits is how many downstream clusters fit into memory.
func fits(memoryBytes uint64) int {
	n := 0
	for memoryNeeded(n+2) <= memoryBytes {
		n++
	}
	return n
}

// gib writes bytes in GiB, rounded up where that matters.
func gib(bytes uint64) string {
	return fmt.Sprintf("%d GiB", (bytes+(1<<30)/2)>>30)
}

// checkPorts refuses a port that another process listens on. running describes
// a sandbox that may be that process, or is empty.
func checkPorts(ports fleet.Ports, names []string, running string) error {
	for _, use := range ports.Uses(names) {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", use.Port))
		if err == nil {
			_ = l.Close()
			continue
		}
		r := &refusal{text: fmt.Sprintf("port %d on 127.0.0.1 is taken (%s)", use.Port, use.For)}
		if running != "" {
			r.advice = append(r.advice, running+": fleet-sandbox status, or fleet-sandbox down")
		}
		other := fmt.Sprintf("choose other ports: fleet-sandbox up --ports %d", otherPorts(ports))
		if running != "" {
			other = "or " + other
		}
		r.advice = append(r.advice, other)
		return r
	}
	return nil
}

// firstEphemeral is the first port that Linux gives to outgoing connections: any of them
// may be taken at any moment.
const firstEphemeral = 32768

// otherPorts is the next round number past the block from which a block of its size ends
// below the ephemeral ports; past those it begins again at 20000.
func otherPorts(p fleet.Ports) int {
	next := (p.Last()/1000 + 1) * 1000
	if next+p.Last()-p.First >= firstEphemeral {
		return 20000
	}
	return next
}
