package commands

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
)

// TestProgress: without a terminal there is one line per step, and after some
// seconds of silence one that says what is being waited for.
func TestProgress(t *testing.T) { synctest.Test(t, testProgress) }

func testProgress(t *testing.T) {
	var out bytes.Buffer
	waiting := ""
	progress := &progressPrinter{out: &out, begin: time.Now(), last: time.Now(), now: func() string { return waiting }}
	progress.step("check", "go 1.26.8")
	progress.wait() // nothing is being waited for
	waiting = "the agent of c1 to check in"
	progress.wait() // too early
	progress.last = progress.last.Add(-silence)
	progress.wait()
	progress.wait() // it was just said
	want := " 0:00  check     go 1.26.8\n 0:00  wait      the agent of c1 to check in\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestMovingLine: on a terminal what is being waited for is one line, which
// the next step overwrites.
func TestMovingLine(t *testing.T) { synctest.Test(t, testMovingLine) }

func testMovingLine(t *testing.T) {
	var out bytes.Buffer
	progress := &progressPrinter{out: &out, moving: true, begin: time.Now(), now: func() string { return strings.Repeat("x", 100) }}
	progress.wait()
	progress.step("start", "c1: serving")
	want := "\r\x1b[K 0:00  wait      " + strings.Repeat("x", 59) + "…" + "\r\x1b[K 0:00  start     c1: serving\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestTables(t *testing.T) {
	var out bytes.Buffer
	err := printTables(&out, fleet.Snapshot{
		Clusters: []fleet.Row{
			{Workspace: "fleet-local", Name: "local", Labels: map[string]string{"name": "local"}, Ready: 1, Desired: 1, State: "Ready"},
			{Workspace: "fleet-default", Name: "c1", Labels: map[string]string{"env": "dev", "fleet.cattle.io/bucket": "00"}, Ready: 2, Desired: 2, State: "Ready"},
		},
		Bundles: []fleet.Row{{Workspace: "fleet-default", Name: "examples-web", Ready: 1, Desired: 2, State: "NotReady"}},
	})
	want := `WORKSPACE       CLUSTER   LABELS    BUNDLES   STATE
fleet-local     local     -         1/1       Ready
fleet-default   c1        env=dev   2/2       Ready

WORKSPACE       BUNDLE         CLUSTERS   STATE
fleet-default   examples-web   1/2        NotReady
`
	if diff := cmp.Diff(want, out.String()); diff != "" || err != nil {
		t.Errorf("%v\n-want +got\n%s", err, diff)
	}
}

// TestTablesOfSeveral: a cluster with a manager of its own is there twice, and the
// first column says by whom.
func TestTablesOfSeveral(t *testing.T) {
	var out bytes.Buffer
	err := printTables(&out, fleet.Snapshot{
		Clusters: []fleet.Row{
			{Manager: "local", Workspace: "fleet-default", Name: "lower", Labels: map[string]string{"env": "dev"}, Ready: 2, Desired: 2, State: "Ready"},
			{Manager: "lower", Member: "lower", Workspace: "fleet-local", Name: "local", State: "Ready"},
		},
		Bundles: []fleet.Row{{Manager: "local", Workspace: "fleet-default", Name: "examples-web", Ready: 1, Desired: 1, State: "Ready"}},
	})
	want := `MANAGER   WORKSPACE       CLUSTER   LABELS    BUNDLES   STATE
local     fleet-default   lower     env=dev   2/2       Ready
lower     fleet-local     local     -         0/0       Ready

MANAGER   WORKSPACE       BUNDLE         CLUSTERS   STATE
local     fleet-default   examples-web   1/1        Ready
`
	if diff := cmp.Diff(want, out.String()); diff != "" || err != nil {
		t.Errorf("%v\n-want +got\n%s", err, diff)
	}
}

// TestAccident: the user sees which process ended, its last words, where the
// log is, and that nothing is left.
func TestAccident(t *testing.T) {
	err := accident{errors.Join(&process.Death{
		Name: "etcd of c1", After: 2 * time.Second, Status: "exit status 1",
		LastLine: "no space left on device", Log: "/cache/log/c1/etcd.log",
	})}
	want := `error: etcd of c1 ended 2s after its start (exit status 1)
  its last line: "no space left on device"
  whole log: /cache/log/c1/etcd.log
  everything else was stopped; nothing is left running
`
	if diff := cmp.Diff(want, said(err)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
