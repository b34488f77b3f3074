package takeover_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// Managers that each have workspaces and a system namespace of their own.
func TestWorkspaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, report := range []struct {
		name string
		run  func(*world, *testing.T)
	}{{"EachInItsOwn", eachInItsOwn}, {"ChangedMeanwhile", changedMeanwhile}} {
		t.Run(report.name, func(t *testing.T) {
			t.Parallel()
			report.run(w.on(t), t)
		})
	}
}

// eachInItsOwn: two teams, two managers, and neither manager writes for the
// other's team.
func eachInItsOwn(w *world, t *testing.T) {
	spaces := map[string]string{"red": "team-red", "blue": "team-blue"}
	for manager, ws := range spaces {
		w.namespace(ws)
		w.namespace("system-" + manager)
		w.join(t, ws, "c-"+manager)
		w.repo(t, ws, "app-"+manager, "")
	}
	since := time.Now()
	for manager, ws := range spaces {
		w.manage(t, manager, "system-"+manager, scope.Scope{Workspaces: []string{ws}})
	}
	for manager, ws := range spaces {
		w.runs(ws, "app-"+manager, 1, nil)
	}
	for manager, ws := range spaces {
		w.until("the cluster is reported ready", func() bool { return w.readyOf(ws, "c-"+manager) == "1/1" })
		if got := w.writers(since, about("app-"+manager)); !slices.Equal(got, []string{manager}) {
			t.Errorf("%s was written by %v", ws, got)
		}
		in := func(r harness.Request) bool { return r.Namespace == ws }
		if got := w.writers(since, in); !slices.Equal(got, []string{manager}) {
			t.Errorf("namespace %s was written in by %v", ws, got)
		}
	}
}

func (w *world) readyOf(ws, name string) string {
	c, err := kube.StoreOf[*fleet.Cluster](w.admin).Get(w.Context(), kube.Key{Namespace: ws, Name: name})
	w.must(err)
	return c.Status.Display.ReadyBundles
}

// changedMeanwhile: a version that another manager has written is found, although
// the mark of ours is still there and the Bundle is what it was.
func changedMeanwhile(w *world, t *testing.T) {
	const ws, system = "team-green", "system-green"
	w.namespace(ws)
	w.namespace(system)
	own := scope.Scope{Workspaces: []string{ws}}
	w.join(t, ws, "c1")
	stop := w.manage(t, "green", system, own)
	w.lone(ws, "app", "1")
	right := w.runs(ws, "app", 1, nil)
	stop()

	other := kube.StoreOf[*fleet.BundleDeployment](w.connect("reference/test", "fleetcontroller"))
	old := w.deployments(ws, "app")[0]
	changed := old.DeepCopy()
	changed.Spec.StagedDeploymentID = "s-other:options"
	changed.Spec.DeploymentID = changed.Spec.StagedDeploymentID
	_, err := other.Update(w.Context(), changed)
	w.must(err)
	w.until("the agent has it", func() bool { return !slices.Equal(w.ids(ws, "app"), right) && w.ids(ws, "app")[0] != "on its way" })

	w.manage(t, "yellow", system, own)
	w.until("what the Bundle says runs again", func() bool { return slices.Equal(w.ids(ws, "app"), right) })
}

// With another implementation as the manager of everything: its path is given, and
// it is started as a program with --kubeconfig and --namespace. It deploys Bundles;
// repositories, which it would read in pods, are no part of it. Nothing is set on the
// Cluster that the reference would not set.
func TestReference(t *testing.T) {
	t.Parallel()
	path := reference(t)
	w := newWorld(t)
	const ws = "fleet-default"
	w.namespace(ws)
	w.joinOfReference(t, ws, "c1")
	_, err := kube.StoreOf[*corev1.ConfigMap](w.admin).Create(w.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapController}, Data: map[string]string{fleet.KeyConfig: "{}"}})
	w.must(err)
	w.program(t, "reference", path)
	w.lone(ws, "web", "1")
	w.lone(ws, "db", "1")
	web, db := w.runs(ws, "web", 1, nil), w.runs(ws, "db", 1, nil)
	if said := w.Tries(w.hub, "fleet takeover check -n "+ws+" -o wide"); said.Code != 0 {
		t.Errorf("not all are identical:\n%s%s", said.Out, said.Notes)
	}

	w.manage(t, "blue", fleet.NamespaceSystem, scope.Scope{Shard: "takeover"})
	w.until("blue has begun", func() bool { return w.Tries(w.hub, "fleet takeover start -n "+ws+" -l app=web").Code == 0 })
	since := time.Now()
	w.lone(ws, "web", "2")
	w.lone(ws, "db", "2")
	w.runs(ws, "web", 1, web)
	w.runs(ws, "db", 1, db)
	ours := func(r harness.Request) bool { return about("web")(r) }
	if got := w.writers(since, ours); !slices.Equal(got, []string{"blue"}) {
		t.Errorf("web was written by %v:\n%s", got, harness.Lines(slices.DeleteFunc(w.writes(since), func(r harness.Request) bool { return !ours(r) })))
	}
	if got := w.writers(since, about("db")); slices.Contains(got, "blue") {
		t.Errorf("db was written by %v", got)
	}

	w.Types(w.hub, "fleet takeover undo -n "+ws+" -l app=web")
	web = w.ids(ws, "web")
	since = time.Now()
	w.lone(ws, "web", "3")
	w.runs(ws, "web", 1, web)
	if got := w.writers(since, about("web")); slices.Contains(got, "blue") {
		t.Errorf("web was given back, and written by %v", got)
	}
}
