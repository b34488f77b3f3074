package fleet

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	corev1 "k8s.io/api/core/v1"

	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// TestPorts: no port has two uses, and all lie in the block that is announced.
func TestPorts(t *testing.T) {
	for clusters := range 60 {
		p := Ports{First: 31000, Clusters: clusters}
		names := make([]string, clusters)
		seen := map[int]string{}
		for _, use := range p.Uses(names) {
			if before, ok := seen[use.Port]; ok {
				t.Fatalf("%d clusters: port %d is for %q and for %q", clusters, use.Port, before, use.For)
			}
			if use.Port < p.First || use.Port > p.Last() {
				t.Fatalf("%d clusters: port %d (%s) is not within %d-%d", clusters, use.Port, use.For, p.First, p.Last())
			}
			seen[use.Port] = use.For
		}
	}
	two := Ports{First: 31000, Clusters: 2}
	got := []int{two.API(0), two.API(1), two.API(2), two.Git(), two.Metrics(0), two.Metrics(1), two.Last()}
	if diff := cmp.Diff([]int{31001, 31002, 31003, 31009, 31018, 31019, 31019}, got); diff != "" {
		t.Errorf("the ports that the documentation shows\n-want +got\n%s", diff)
	}
	if free := (Ports{Clusters: 2}); free.API(1) != 0 || free.Git() != 0 || free.Link(2) != 0 || free.Metrics(1) != 0 {
		t.Error("without a first port every part takes any free one")
	}
}

func TestWithoutDeployments(t *testing.T) {
	in := `# Source: a.yaml
apiVersion: v1
kind: ServiceAccount
metadata:
  name: fleet-controller
---
# Source: b.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: fleet-controller
---
---
# only a comment
---
apiVersion: v1
kind: ConfigMap
data:
  text: |
    kind: Deployment
`
	out, err := withoutDeployments{}.Run(bytes.NewBufferString(in))
	if err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if !strings.Contains(text, "kind: ServiceAccount") || !strings.Contains(text, "kind: ConfigMap") {
		t.Errorf("something else than a Deployment is missing:\n%s", text)
	}
	if strings.Contains(text, "apps/v1") {
		t.Errorf("a Deployment is left:\n%s", text)
	}
}

func TestLabelText(t *testing.T) {
	cases := map[string]struct {
		labels map[string]string
		want   string
	}{
		"None":    {nil, "-"},
		"Sorted":  {map[string]string{"region": "eu", "env": "dev"}, "env=dev,region=eu"},
		"Own":     {map[string]string{"name": "local", "fleet.cattle.io/bucket": "00", "env": "dev"}, "env=dev"},
		"OnlyOwn": {map[string]string{"kubernetes.io/metadata.name": "x", "management.cattle.io/y": "z"}, "-"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := LabelText(c.labels); got != c.want {
				t.Errorf("want %q, got %q", c.want, got)
			}
		})
	}
}

func TestPending(t *testing.T) {
	ready := []api.Condition{{Type: api.ConditionReady, Status: corev1.ConditionTrue}}
	repo := func(commit string, conditions []api.Condition) *api.GitRepo {
		r := &api.GitRepo{}
		r.Namespace, r.Name = "fleet-default", "examples"
		r.Status.Commit, r.Status.Conditions = commit, conditions
		return r
	}
	bundle := func(ready, desired int, conditions []api.Condition) *api.Bundle {
		b := &api.Bundle{}
		b.Namespace, b.Name = "fleet-default", "examples-web"
		b.Status.Conditions = conditions
		b.Status.Summary.Ready, b.Status.Summary.DesiredReady = ready, desired
		return b
	}
	cluster := func(n int) Row {
		return Row{Workspace: "fleet-default", Name: "c1", Ready: n, Desired: n, State: "Ready"}
	}
	failing := []api.Condition{{Type: api.ConditionReady, Status: corev1.ConditionFalse, Message: "no such branch"}}
	cases := map[string]struct {
		why    string
		snap   Snapshot
		commit string
		want   string
	}{
		"Ready": {
			why:    "what is Ready needs no more waiting",
			snap:   Snapshot{repos: []repoRow{gitRow(repo("3f9c", ready))}, Bundles: []Row{bundleRow(bundle(2, 2, ready))}, Clusters: []Row{cluster(2)}},
			commit: "3f9c",
		},
		"Uncounted": {
			why:  "the status of a cluster may be a second behind that of its bundles",
			snap: Snapshot{repos: []repoRow{gitRow(repo("3f9c", ready))}, Bundles: []Row{bundleRow(bundle(2, 2, ready))}, Clusters: []Row{cluster(1)}},
			want: "the Clusters count 1 deployments, the Bundles 2",
		},
		"NotRead": {
			why:  "before the first poll nothing is known",
			snap: Snapshot{repos: []repoRow{gitRow(repo("", nil))}},
			want: "GitRepo fleet-default/examples is not read yet",
		},
		"OldCommit": {
			why:    "what is Ready at another commit says nothing of this one",
			snap:   Snapshot{repos: []repoRow{gitRow(repo("3f9c", ready))}},
			commit: "8b7d",
			want:   "GitRepo fleet-default/examples is not read yet",
		},
		"Cause": {
			why:  "the user sees why",
			snap: Snapshot{repos: []repoRow{gitRow(repo("", failing))}},
			want: "GitRepo fleet-default/examples is not read yet: no such branch",
		},
		"HalfReady": {
			why:  "one of two clusters is not enough, whatever the condition says",
			snap: Snapshot{repos: []repoRow{gitRow(repo("3f9c", ready))}, Bundles: []Row{bundleRow(bundle(1, 2, ready))}},
			want: "Bundle fleet-default/examples-web is Ready on 1 of 2",
		},
		"NoCondition": {
			why:  "no state at all is not the same as Ready",
			snap: Snapshot{repos: []repoRow{gitRow(repo("3f9c", ready))}, Bundles: []Row{bundleRow(bundle(0, 0, nil))}},
			want: "Bundle fleet-default/examples-web is NotReady",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.snap.Pending(c.commit); got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, got)
			}
		})
	}
}

// The manager's version is that of the agents: both are of this clone, and fleet check
// has nothing to warn of.
func TestChartsHaveTheVersionOfThePrograms(t *testing.T) {
	loaded, err := load("../../../charts/fleet")
	if err != nil {
		t.Fatal(err)
	}
	values, err := chartutil.ToRenderValues(loaded, map[string]any{}, chartutil.ReleaseOptions{Name: "fleet", Namespace: api.NamespaceSystem}, nil)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := engine.Render(loaded, values)
	if err != nil {
		t.Fatal(err)
	}
	if text := rendered["fleet/templates/configmap.yaml"]; !strings.Contains(text, api.AnnotationVersion+": "+version.Version+"\n") {
		t.Errorf("want version %s in %s", version.Version, text)
	}
}
