package harness

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// AnonymousMiB is how much memory, not backed by files, the first process of the
// manager uses now, or an agent where m is not nil; 0 if it does not run.
func (w *World) AnonymousMiB(m *Member) int {
	pid := w.fleet.ManagerPIDs()[0]
	if m != nil {
		pid = m.AgentPID()
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kib, err := strconv.Atoi(strings.Fields(rest)[0])
			if err == nil {
				return kib >> 10
			}
		}
	}
	return 0
}
