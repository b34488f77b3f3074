package bundlesource_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// A full disk is a fault of this process, whatever chart is downloaded to it.
func TestFullDiskIsALocalFault(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a disk of its own needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	r := newReader(t, func(c *bundlesource.Config) { c.Dir = dir })
	_ = os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 2<<20), 0o600) // as much of it as there is room for
	chart := webtest.Chart{Name: "demo", Version: "1.0.0"}
	helm := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{chart}})
	registry := ocitest.Start(t, ocitest.Options{})
	registry.PushChart(t, "demo", "1.0.0", chart.Pack())
	for name, yaml := range map[string]string{
		"Repository": helmYAML("repo: "+helm.URL, "chart: demo"), "Archive": helmYAML("chart: " + helm.URL + "/archives/demo-1.0.0.tgz"),
		"OCI": helmYAML("repo: oci://"+registry.Host+"/demo", "version: 1.0.0"),
	} {
		t.Run(name, func(t *testing.T) {
			in := input(map[string]string{"a/fleet.yaml": "defaultNamespace: x\n" + yaml})
			in.Access.Default.BasicHTTP = true
			set, _, err := r.Read(t.Context(), in)
			if err != nil || len(set.Results) != 1 {
				t.Fatalf("want one result, got %v, %v", set, err)
			}
			errs := finding.Errors(set.Results[0].Findings)
			if len(errs) != 1 || errs[0].Rule != finding.RuleLocalFault || !set.Results[0].Retry || !strings.Contains(errs[0].Message, "free space") {
				t.Errorf("want a local fault and another try (%v), got %v", set.Results[0].Retry, errs)
			}
		})
	}
}
