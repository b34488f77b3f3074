package harness

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// logsEnv, in the environment of a verbose test run, shows what managers and agents
// say; "all": also where there are many of them.
const logsEnv = "FLEET_TEST_LOGS"

// Logger is the log of a process of Fleet's in a test.
func Logger() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	if testing.Verbose() && os.Getenv(logsEnv) != "" {
		log.SetOutput(os.Stderr)
	}
	return log
}

// tailLines is how many lines of each log a failed test shows.
const tailLines = 15

// ownLogs are the logs of Fleet's own processes below the folder of a fleet.
func ownLogs(dir string) []string {
	var files []string
	for _, name := range []string{"fleet-controller", "gitjob", "fleet-agent"} {
		found, err := filepath.Glob(filepath.Join(dir, "log", "*", name+".log"))
		if err == nil {
			files = append(files, found...)
		}
	}
	slices.Sort(files)
	return files
}

// Logs are the logs of the manager's processes and of the agents, by path.
func (w *World) Logs() map[string][]byte {
	w.t.Helper()
	logs := map[string][]byte{}
	for _, path := range ownLogs(w.dir) {
		data, err := os.ReadFile(path)
		w.must(err)
		logs[path] = data
	}
	return logs
}

// logTails is the end of each log of Fleet's own processes: what was said
// since a moment, debug messages left out.
func logTails(dir string, since time.Time) string {
	var b strings.Builder
	for _, path := range ownLogs(dir) {
		data, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintf(&b, "--- %v\n", err)
			continue
		}
		lines := tail(data, since)
		if len(lines) == 0 {
			continue
		}
		fmt.Fprintf(&b, "--- %s\n%s\n", path, strings.Join(lines, "\n"))
	}
	return b.String()
}

func tail(data []byte, since time.Time) []string {
	var lines []string
	scan := bufio.NewScanner(bytes.NewReader(data))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var entry struct {
			Time  time.Time `json:"time"`
			Level string    `json:"level"`
		}
		if err := json.Unmarshal(scan.Bytes(), &entry); err == nil {
			if entry.Level == "debug" || entry.Time.Before(since.Truncate(time.Second)) {
				continue
			}
		}
		lines = append(lines, scan.Text())
	}
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return lines
}
