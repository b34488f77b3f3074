package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// cleanUp runs a command against the fleet of cleanup.yaml, after change, and returns what
// it wrote.
func cleanUp(t *testing.T, change func(*fake), args ...string) (writes []string, notes string, err error) {
	t.Helper()
	f := newFake(t, "testdata/fleets/cleanup.yaml")
	if change != nil {
		change(f)
	}
	st := stage{fake: f}
	var n bytes.Buffer
	root := command(st.globals(func() {}), printer.Stdio{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &n})
	root.SetArgs(append([]string{"cleanup"}, args...))
	err = root.ExecuteContext(t.Context())
	return f.writes, n.String(), err
}

// runsReference adds a manager of the reference.
func runsReference(f *fake) {
	f.take(step{objects: []*unstructured.Unstructured{{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "gitjob", "namespace": fleet.NamespaceSystem},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{
			map[string]any{"name": "gitjob", "args": []any{"fleetcontroller", "gitjob"}},
		}}}},
	}}}})
}

func TestCleanup(t *testing.T) {
	registrations := []string{
		"delete ClusterRegistration fleet-default/request-1", "delete ClusterRegistration fleet-default/request-3",
		"delete ServiceAccount cluster-fleet-default-c1/request-1-u1", "delete ClusterRoleBinding /request-0-content",
	}
	cases := map[string]struct {
		why    string
		change func(*fake)
		args   []string
		want   []string
	}{
		"Registrations": {"what is outdated or without Cluster or registration goes", nil, []string{"clusterregistration"}, registrations},
		"FlagsOfTheReference": {"its command lines work", nil,
			[]string{"clusterregistration", "--min", "1ms", "--max", "2ms", "--factor", "1.1", "--debug", "--debug-level", "2"}, registrations},
		"OtherWorkspace":     {"-n narrows", nil, []string{"clusterregistration", "-n", "fleet-local"}, nil},
		"DryRun":             {"it only shows", nil, []string{"clusterregistration", "--dry-run"}, nil},
		"JobsDryRun":         {"it only shows", nil, []string{"gitjob", "--dry-run"}, nil},
		"BesideTheReference": {"what its manager uses stays", runsReference, []string{"gitjob", "--batch-size", "1"}, []string{"delete Job fleet-default/web-6f1c2"}},
		"Jobs": {"without its manager all goes that is of the reference", nil, []string{"gitjob", "--batch-size", "5000"}, []string{
			"delete Job cattle-fleet-system/fleet-cleanup-clusterregistrations", "delete Job fleet-default/web-6f1c2", "delete Job fleet-default/web-9ab00",
			"delete ServiceAccount fleet-default/git-web", "delete CronJob cattle-fleet-system/fleet-cleanup-gitrepo-jobs",
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			writes, _, err := cleanUp(t, c.change, c.args...)
			slices.Sort(writes)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, writes); diff != "" || err != nil {
				t.Errorf("%s: %v\n-want +got\n%s", c.why, err, diff)
			}
		})
	}
}

// What cannot be read decides nothing: no list is taken for an empty one.
func TestCleanupWithoutRights(t *testing.T) {
	for _, lacks := range []string{"clusters", "clusterregistrations", "serviceaccounts", "clusterrolebindings"} {
		writes, _, err := cleanUp(t, func(f *fake) { f.refuse[lacks+" "] = true }, "clusterregistration")
		if err == nil || len(writes) > 0 {
			t.Errorf("%s: %v, %v", lacks, err, writes)
		}
	}
	for _, lacks := range []string{"jobs ", "deployments " + fleet.NamespaceSystem} {
		writes, _, err := cleanUp(t, func(f *fake) { f.refuse[lacks] = true }, "gitjob")
		if err == nil || len(writes) > 0 {
			t.Errorf("%s: %v, %v", lacks, err, writes)
		}
	}
}

// A registration stays if the last look at its Cluster fails, and the rest is deleted.
func TestCleanupLooksAgain(t *testing.T) {
	writes, _, err := cleanUp(t, func(f *fake) { f.refuse["clusters fleet-default"] = true }, "clusterregistration")
	if !errors.Is(err, cli.ErrPartly) || slices.Contains(writes, "delete ClusterRegistration fleet-default/request-3") {
		t.Errorf("want the rest done, got %v, %v", err, writes)
	}
}

func TestCleanupFlags(t *testing.T) {
	for line, want := range map[string]string{
		"clusterregistration --min 0s": "--min", "clusterregistration --min 5s": "--max", "clusterregistration --factor 1": "--factor",
		"clusterregistration --factor Inf": "--factor", "clusterregistration --factor NaN": "--factor", "gitjob --batch-size 0": "--batch-size",
	} {
		if _, _, err := cleanUp(t, nil, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", line, err)
		}
	}
}
