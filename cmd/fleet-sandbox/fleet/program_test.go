package fleet

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
)

// A program that is ended while it waits to be started again stays ended, also where
// the time has come at that very moment.
func TestEndedStaysEnded(t *testing.T) {
	dir := t.TempDir()
	p := &program{group: process.NewGroup(), spec: process.Spec{
		Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", "exec sleep 600"}, Dir: dir, Log: filepath.Join(dir, "log"),
		Env: []string{"PATH=/usr/bin:/bin"},
	}}
	t.Cleanup(func() { p.group.Close(0) })
	p.retry = time.NewTimer(time.Hour)
	if !p.end(true) {
		t.Error("there was nothing to end")
	}
	p.again() // the timer could not be stopped any more
	if pid := p.running(); pid != 0 {
		t.Errorf("it runs as process %d", pid)
	}
	if err := p.start(); err != nil || p.running() == 0 {
		t.Errorf("it does not start: %v", err)
	}
}
