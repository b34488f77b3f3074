package workspace

import (
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// away is for how long Rancher is away before the manager believes it, and more.
const away = 10 * time.Minute

// A scenario has three acts on one API server: while Rancher maps, while it is
// away and the manager maps what Rancher has not, and when it is back and takes
// over what the manager has mapped. In each act it checks who has written what.
type scenario struct {
	name              string
	lives, away, back func(w *world, since time.Time)
}

var scenarios = []scenario{
	{"01_Mapping", mappedByRancher, mappedByUs, mappedByRancherAgain},
	{"02_NotReadyYet", readyLives, readyAway, readyBack},
	{"04_DefaultWorkspace", assignedByRancher, assignedByUs, assignedByRancherAgain},
	{"05_ExternallyManaged", externalLives, externalAway, externalBack},
	{"06_ForeignFields", foreignLives, foreignAway, foreignBack},
	{"07_UnknownFields", unknownLives, unknownAway, unknownBack},
	{"08_Local", localLives, localAway, localBack},
	{"09_Scheduling", schedulingLives, schedulingAway, schedulingBack},
	{"10_PullSecrets", pullSecretsLive, pullSecretsAway, pullSecretsBack},
	{"13_Create", spaceLives, spaceAway, spaceBack},
	{"14_Existing", existingLives, existingAway, existingBack},
	{"15_Unmanaged", orphanLives, orphanAway, orphanBack},
	{"16_Guard", guardLives, guardAway, guardBack},
	{"18_Moved", movedLives, movedAway, movedBack},
	{"20_Down", downLives, downAway, downBack},
}

// TestRancherComesAndGoes starts, stops and starts Rancher again in the middle of
// each scenario.
func TestRancherComesAndGoes(t *testing.T) {
	w := newWorld(t)
	w.rancher = rancher.New(t, w.hub)
	w.rancher.Put(t, rancher.Features, "", plan.FeatureScheduling, `{"spec":{"value":true}}`)
	w.rancher.Start(t)
	w.until("there is a workspace", func() bool { return w.namespace("fleet-default") != nil })
	w.start(plan.Auto)
	w.plays(plan.Observe)
	w.act(t, "RancherLives", func(s scenario) func(*world, time.Time) { return s.lives })
	w.onlyGuards(t)

	w.rancher.Stop(t)
	w.heard()
	w.takesOver()
	w.act(t, "RancherIsAway", func(s scenario) func(*world, time.Time) { return s.away })

	w.started = time.Now() // Rancher works before the manager knows
	w.rancher.Start(t)
	w.plays(plan.Observe)
	since := time.Now()
	w.act(t, "RancherIsBack", func(s scenario) func(*world, time.Time) { return s.back })
	w.quiet(t, since)
	w.patchesOnly()
}

// heard waits until the manager has seen the last sign of life of a Rancher that was
// stopped: one that it saw only when time has passed would be one of a Rancher that is
// back. It sees the lease change in order, and shows by its part that it has seen it gone.
func (w *world) heard() {
	w.Helper()
	leases, key := kube.StoreOf[*coordinationv1.Lease](w.hub.Admin), kube.Key{Namespace: "kube-system", Name: "cattle-controllers"}
	lease, err := leases.Get(w.Context(), key)
	w.must(err)
	w.must(leases.Delete(w.Context(), key, kube.Precondition{}))
	w.plays(plan.Map)
	_, err = leases.Create(w.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Spec: lease.Spec})
	w.must(err)
	w.plays(plan.Observe)
}

// takesOver lets time pass until the manager believes that Rancher is away.
func (w *world) takesOver() {
	w.Helper()
	w.plays(plan.Observe)
	w.ahead.Add(int64(away))
	w.plays(plan.Map)
}

// act runs one act of all scenarios.
func (w *world) act(t *testing.T, name string, of func(scenario) func(*world, time.Time)) {
	t.Helper()
	since := time.Now()
	for _, s := range scenarios {
		f := of(s)
		t.Run(name+"/"+s.name, func(t *testing.T) { f(w.in(t), since) })
	}
	if t.Failed() {
		t.FailNow()
	}
}

// guards reports whether a write of the manager is one that it also makes while Rancher
// maps: its finalizer on workspaces that hold clusters, and what it says of them.
func guards(fields []string) bool {
	return !slices.ContainsFunc(fields, func(f string) bool {
		return f != "metadata.finalizers" && f != "metadata.annotations["+plan.AnnotationRefused+"]"
	})
}

// onlyGuards checks that the manager has written nothing else until now.
func (w *world) onlyGuards(t *testing.T) {
	t.Helper()
	w.quiet(t, time.Time{})
}

// quiet checks that the manager has written nothing but its guards since a moment.
func (w *world) quiet(t *testing.T, since time.Time) {
	t.Helper()
	for _, r := range w.in(t).writes(since) {
		if r.What() != "fleetworkspaces" || !guards(r.Fields) {
			t.Errorf("written beside Rancher: %s", r)
		}
	}
}

// adopted waits until Rancher, since its last start, has taken over an object that the
// manager has made, and checks that Rancher had nothing to change but its own marks, and
// the manager has changed nothing since a moment: both come to the same object.
func (w *world) adopted(since time.Time, resource, namespace, name string) {
	w.Helper()
	patched := func() []string { // its engine sends patches; what it updates are finalizers and its own status
		list := slices.DeleteFunc(w.log(w.started), func(r harness.Writing) bool { return r.Verb != "patch" })
		return harness.FieldsBy(list, rancher.User, resource, namespace, name)
	}
	w.until("Rancher takes over "+name, func() bool { return len(patched()) > 0 })
	for _, f := range patched() {
		if !strings.HasPrefix(f, "metadata.annotations[objectset.rio.cattle.io/") && !strings.HasPrefix(f, "metadata.labels[objectset.rio.cattle.io/") {
			w.Errorf("%s of %s is not as Rancher would have written it", f, name)
		}
	}
	w.untouched(manager, since, resource, namespace, name)
}

// TestBesideRancher plays a Rancher that lives: only Rancher maps. When its feature
// is off, the manager does.
func TestBesideRancher(t *testing.T) {
	w := newWorld(t)
	w.rancher = rancher.New(t, w.hub)
	w.rancher.Without = []string{"fleet-cluster", "workspace", "workspace-backport-cluster"} // it lives, and that is all
	w.rancher.Start(t)
	w.hub.Namespace(t, "fleet-default")
	w.rancher.Triple(t, "fleet-default", "c1", "c-m-abcd1234", "")
	w.rancher.Put(t, rancher.Workspaces, "", "team-a", `{}`)
	w.start(plan.Auto)
	w.plays(plan.Observe)
	w.watches("nodes")
	w.quiet(t, time.Time{})
	if w.cluster("fleet-default", "c1") != nil || w.namespace("team-a") != nil {
		t.Error("mapped beside Rancher")
	}
	w.rancher.Patch(t, rancher.Features, "", "fleet", `{"spec":{"value":false}}`)
	w.until("with its feature off we map", func() bool { return w.cluster("fleet-default", "c1") != nil && w.namespace("team-a") != nil })
}

// TestNeverInRanchersPlace configures the manager for a Rancher that always maps, with
// the rights of the chart for that: the manager does not map if Rancher does not, and
// still keeps its guard.
func TestNeverInRanchersPlace(t *testing.T) {
	w := newWorldFor(t, plan.WithRancher)
	w.rancher = rancher.New(t, w.hub) // its kinds alone
	w.hub.Namespace(t, "team-a")
	w.rancher.Put(t, rancher.Workspaces, "", "team-a", `{}`)
	w.rancher.Put(t, rancher.Workspaces, "", "team-b", `{}`)
	w.rancher.Triple(t, "team-a", "held", "c-m-00000017", "")
	w.start(plan.WithRancher)
	w.plays(plan.Observe)
	w.until("the workspace is guarded", func() bool {
		return slices.Contains(w.rancher.Get(t, rancher.Workspaces, "", "team-a").GetFinalizers(), plan.Finalizer)
	})
	w.rancher.Delete(t, rancher.Workspaces, "", "team-a")
	w.refused("team-a", "DeletionRefused")
	w.quiet(t, time.Time{})
	if w.cluster("team-a", "held") != nil || w.namespace("team-b") != nil {
		t.Error("mapped where only Rancher may")
	}
}

// TestInRanchersPlace lets Rancher map, removes it for good, and configures the
// manager for that: it takes over what Rancher has made, and changes nothing of it.
func TestInRanchersPlace(t *testing.T) {
	w := newWorld(t)
	w.rancher = rancher.New(t, w.hub)
	w.rancher.Start(t)
	w.until("there is a workspace", func() bool { return w.namespace("fleet-default") != nil })
	w.rancher.Ready(t, w.rancher.Provision(t, "fleet-default", "c1", `{"metadata":{"labels":{"env":"dev"}},"spec":{"rkeConfig":{}}}`), true)
	before := w.mapped("fleet-default", "c1")
	w.until("the local cluster is mapped", func() bool { return w.cluster("fleet-local", "local") != nil })
	w.rancher.Uninstall(t)

	since := time.Now()
	w.start(plan.Auto)
	w.plays(plan.Map)
	w.turns("auto") // it maps what is not mapped yet, and leaves what is Rancher's
	w.untouched(manager, since, fleetClusters, "fleet-default", "c1")
	w.untouched(manager, since, namespaces, "", "fleet-default")
	w.stop()

	w.start(plan.Standalone)
	w.until("the manager maps it now", func() bool { return w.cluster("fleet-default", "c1").Annotations[plan.AnnotationMappedFrom] != "" })
	after := w.cluster("fleet-default", "c1")
	if after.UID != before.UID || after.Generation != before.Generation {
		t.Errorf("it was changed: %+v, was %+v", after.Spec, before.Spec)
	}
	w.sees("it goes on", "prod", func() string {
		w.rancher.Patch(t, rancher.Clusters, "", before.Labels[fleet.LabelManagementCluster], `{"metadata":{"labels":{"env":"prod"}}}`)
		return w.label("fleet-default", "c1", "env")
	})
}
