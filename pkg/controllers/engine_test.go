package controllers_test

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// readRepo plays the reader of repositories: the repository was read.
func (w *world) readRepo(name string) {
	w.t.Helper()
	r := w.create(&fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name},
		Spec: fleet.GitRepoSpec{Repo: "https://example.com/x"}}).(*fleet.GitRepo)
	setStatus(w, kube.KeyOf(r), func(r *fleet.GitRepo) {
		r.Status.Commit, r.Status.GitJobStatus, r.Status.ObservedGeneration = "c1", "Current", r.Generation
	})
}

// TestEngine plays the life of a few Bundles in one world, in order.
func TestEngine(t *testing.T) { synctest.Test(t, engineBubble) }

func engineBubble(t *testing.T) {
	w := &world{t: t, agents: map[string]*agent{}, checkin: strict} // a cluster is to be Offline
	w.open()
	c1 := w.addCluster("c1", map[string]string{"env": "dev"})
	w.addCluster("c2", map[string]string{"env": "prod"})
	w.create(&fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "all"},
		Spec: fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{}}})
	cases := []struct {
		name   string
		report func(*testing.T, *world, *agent)
	}{
		{"FirstCommit", firstCommit}, {"Values", valuesStayInSecrets}, {"Labels", labelsMove}, {"Unlabelled", unlabelledCluster},
		{"NoCluster", noCluster}, {"Failure", failureShows}, {"Rename", newBeforeOld}, {"ByHand", deletedByHand}, {"Brake", brakeHolds}, {"Policy", policyCloses},
		{"HelmOp", helmOpStatus}, {"Offline", offlineKeepsItsOrder}, {"Restart", restartWritesNothing},
	}
	for _, s := range cases {
		t.Log("=== ", s.name)
		s.report(t, w, c1)
	}
}

func firstCommit(t *testing.T, w *world, _ *agent) {
	w.readRepo("repo")
	start := time.Now()
	w.create(bundle("web", "v1", everywhere()))
	w.readyOn("web", "2/2")
	sees(w, "the repository is Ready", "True", repoReady(w, "repo"))
	t.Logf("Ready everywhere after %s", time.Since(start).Round(time.Millisecond))
	sees(w, "the cluster is Ready", "True", clusterReady(w, "c1"))
	b := get[*fleet.Bundle](w, in("web"))
	if b.Status.ObservedGeneration != b.Generation {
		t.Errorf("status %+v", b.Status)
	}
	w.until("the repository counts", func() bool {
		st := get[*fleet.GitRepo](w, in("repo")).Status
		return st.ReadyClusters == 2 && len(st.Resources) == 1 && len(st.Resources[0].PerClusterState.Ready) == 2
	})
	sees(w, "the repository is Ready", "True", repoReady(w, "repo"))
	sees(w, "the group counts", "2/2", func() string {
		return get[*fleet.ClusterGroup](w, in("all")).Status.Display.ReadyClusters
	})
	update(w, in("web"), func(b *fleet.Bundle) { b.Spec.Resources[0].Content = "v2"; b.Labels[fleet.LabelCommit] = "c2" })
	start = time.Now()
	sees(w, "the second commit is there", true, func() bool {
		b := get[*fleet.Bundle](w, in("web"))
		return b.Status.ObservedGeneration == b.Generation && bundleReady(w, "web")() == "True"
	})
	t.Logf("second commit Ready after %s", time.Since(start).Round(time.Millisecond))
	if got := w.deployment("web", "c1").Labels[fleet.LabelCommit]; got != "c2" {
		t.Errorf("commit label %q", got)
	}
}

func valuesStayInSecrets(t *testing.T, w *world, _ *agent) {
	b := w.withValues(bundle("vals", "v1", everywhere()), map[string]any{"password": "canary-${ .ClusterName }"})
	w.create(b)
	sees(w, "Ready", "True", bundleReady(w, "vals"))
	bd := w.deployment("vals", "c2")
	s := get[*corev1.Secret](w, kube.KeyOf(bd))
	if string(s.Data[fleet.KeyValues]) != `{"password":"canary-c2"}` {
		t.Errorf("values %s", s.Data[fleet.KeyValues])
	}
	remove[*corev1.Secret](w, kube.KeyOf(bd))
	w.until("lost values come back", func() bool { return get[*corev1.Secret](w, kube.KeyOf(bd)) != nil })
	other := kube.KeyOf(w.deployment("vals", "c1"))
	w.settle()
	remove[*fleet.Bundle](w, in("vals"))
	w.until("the Bundle's values go with it", func() bool { return get[*corev1.Secret](w, in("vals")) == nil })
	w.until("and those of its deployments", func() bool { return get[*corev1.Secret](w, other) == nil })
}

func labelsMove(t *testing.T, w *world, _ *agent) {
	w.create(bundle("prod", "x", where("env", "prod")))
	sees(w, "only c2", "c2", w.on("prod"))
	update(w, in("c1"), func(c *fleet.Cluster) { c.Labels["env"] = "prod" })
	sees(w, "a label makes it arrive", "c1 c2", w.on("prod"))
	update(w, in("c1"), func(c *fleet.Cluster) { c.Labels["env"] = "dev" })
	sees(w, "its absence makes it leave", "c2", w.on("prod"))
	sees(w, "no trace remains", true, func() bool {
		return condition.Find(get[*fleet.Bundle](w, in("prod")).Status.Conditions, fleet.ConditionWithdrawing) == nil
	})
	update(w, in("all"), func(g *fleet.ClusterGroup) {
		g.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "dev"}}
	})
	w.create(bundle("grouped", "x", fleet.BundleTarget{ClusterGroup: "all"}))
	sees(w, "the group's only member", "c1", w.on("grouped"))
	update(w, in("all"), func(g *fleet.ClusterGroup) { g.Spec.Selector = &metav1.LabelSelector{} })
	sees(w, "a change of a group targets again", "c1 c2", w.on("grouped"))
}

// unlabelledCluster: templates of values stay text for a cluster without labels, as in
// Rancher Fleet. The Bundle and its GitRepo say so until the cluster has labels.
func unlabelledCluster(_ *testing.T, w *world, _ *agent) {
	says := func(conditions func() []fleet.Condition) func() string {
		return func() string {
			if c := condition.Find(conditions(), fleet.ConditionValuesRendered); c != nil {
				return string(c.Status) + " " + c.Message
			}
			return ""
		}
	}
	ofBundle := says(func() []fleet.Condition { return get[*fleet.Bundle](w, in("templated")).Status.Conditions })
	ofRepo := says(func() []fleet.Condition { return get[*fleet.GitRepo](w, in("repo")).Status.Conditions })
	const text = "templates of values are not rendered for c1, which has no labels: the value is the text of the template; with any label on the Cluster they are rendered"
	w.create(w.withValues(bundle("templated", "x", everywhere()), map[string]any{"name": "${ .ClusterName }"}))
	sees(w, "on both", "c1 c2", w.on("templated"))
	var labels map[string]string
	update(w, in("c1"), func(c *fleet.Cluster) { labels, c.Labels = c.Labels, nil })
	sees(w, "the Bundle says it", "False "+text, ofBundle)
	sees(w, "the GitRepo says it", "False bundle templated: "+text, ofRepo)
	update(w, in("c1"), func(c *fleet.Cluster) { c.Labels = labels })
	sees(w, "with labels the Bundle does not", "", ofBundle)
	sees(w, "nor the GitRepo", "", ofRepo)
	remove[*fleet.Bundle](w, in("templated"))
}

func noCluster(_ *testing.T, w *world, _ *agent) {
	w.create(bundle("nowhere", "x", where("env", "moon")))
	sees(w, "the first rule that failed",
		`False NoTargets: targets none of 2 clusters: target 1 "moon" wants env=moon, c1 has env=dev`, bundleReady(w, "nowhere"))
	sees(w, "a repository with other Bundles is Ready nevertheless", "True", repoReady(w, "repo"))
	remove[*fleet.Bundle](w, in("nowhere"))
}

func failureShows(_ *testing.T, w *world, c1 *agent) {
	c1.set(func() { c1.broken["bad"] = "Service web/web exists" })
	w.create(bundle("bad", "x", everywhere()))
	sees(w, "the Bundle names cluster and cause",
		"False ErrApplied: ErrApplied(1) [Cluster fleet-default/c1: Service web/web exists]", bundleReady(w, "bad"))
	sees(w, "the cluster names the Bundle", "False ErrApplied: ErrApplied(1) [Bundle bad: Service web/web exists]", clusterReady(w, "c1"))
	c1.set(func() { delete(c1.broken, "bad") })
	sees(w, "and all is well again", "True", repoReady(w, "repo"))
	remove[*fleet.Bundle](w, in("bad"))
	sees(w, "gone", "", w.on("bad"))
}

// newBeforeOld: a renamed bundle is written before the old one is withdrawn.
func newBeforeOld(t *testing.T, w *world, _ *agent) {
	w.create(bundle("old", "x", everywhere()))
	sees(w, "there", "c1 c2", w.on("old"))
	w.create(bundle("new", "x", everywhere()))
	remove[*fleet.Bundle](w, in("old"))
	sees(w, "old leaves", "", w.on("old"))
	for _, c := range []string{"c1", "c2"} {
		if w.deployment("new", c) == nil {
			t.Errorf("old is gone from %s before new is there", c)
		}
	}
	w.until("the Bundle itself goes", func() bool { return get[*fleet.Bundle](w, in("old")) == nil })
}

func deletedByHand(t *testing.T, w *world, _ *agent) {
	old := w.deployment("web", "c1")
	remove[*fleet.BundleDeployment](w, kube.KeyOf(old))
	w.until("it comes back", func() bool { bd := w.deployment("web", "c1"); return bd != nil && bd.UID != old.UID })
	if got := w.deployment("web", "c1").Spec.DeploymentID; got != old.Spec.DeploymentID {
		t.Errorf("with another id: %s", got)
	}
	sees(w, "Ready", "True", bundleReady(w, "web"))
	key := kube.KeyOf(old)
	update(w, key, func(bd *fleet.BundleDeployment) { bd.Labels = nil })
	w.until("labels come back", func() bool { return w.deployment("web", "c1").Labels[fleet.LabelBundleName] == "web" })
	update(w, key, func(bd *fleet.BundleDeployment) { bd.Spec.Options.DefaultNamespace = "elsewhere" })
	w.until("options come back", func() bool { return w.deployment("web", "c1").Spec.Options.DefaultNamespace == "" })
	update(w, in("web"), func(b *fleet.Bundle) { b.Finalizers = nil })
	w.until("so does our finalizer", func() bool { return len(get[*fleet.Bundle](w, in("web")).Finalizers) == 1 })
}

func brakeHolds(_ *testing.T, w *world, _ *agent) {
	brake := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapBrake},
		Data: map[string]string{"suspended": "true", "by": "ana", "reason": "audit"}}
	w.create(brake)
	w.heldBack("web", "False OutOfSync: OutOfSync(2) [Cluster fleet-default/c1: suspended by ana: audit]")
	remove[*corev1.ConfigMap](w, kube.KeyOf(brake))
	sees(w, "it goes on", "True", bundleReady(w, "web"))
}

// heldBack waits until a Bundle says that what is new is held back, and why: it is changed
// and looked at again until the manager knows of what holds it back.
func (w *world) heldBack(name, says string) {
	w.t.Helper()
	w.until(name+" says "+says, func() bool {
		update(w, in(name), func(b *fleet.Bundle) { b.Spec.Resources[0].Content = "held " + time.Now().String() })
		w.until(name+" was looked at", func() bool {
			b := get[*fleet.Bundle](w, in(name))
			return b.Status.ObservedGeneration == b.Generation
		})
		return bundleReady(w, name)() == says
	})
}

func policyCloses(_ *testing.T, w *world, _ *agent) {
	w.create(&fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "p"}, RequireServiceAccount: true})
	const why = "serviceAccount is required by Policy but is not set"
	w.heldBack("web", "False PolicyViolation: "+why)
	w.create(bundle("late", "x", everywhere()))
	sees(w, "nothing new that violates the Policy", "False PolicyViolation: "+why, bundleReady(w, "late"))
	remove[*fleet.Policy](w, in("p"))
	sees(w, "then it comes", "True", bundleReady(w, "late"))
	sees(w, "as does what was held back", "True", bundleReady(w, "web"))
	w.create(&fleet.ImageScan{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "h"}})
	sees(w, "an ImageScan says that image scanning is switched off", "SwitchedOff", func() string {
		c := condition.Find(get[*fleet.ImageScan](w, in("h")).Status.Conditions, fleet.ConditionAccepted)
		if c == nil {
			return ""
		}
		return c.Reason
	})
}

// helmOpStatus: the status of a HelmOp counts the deployments of its Bundle, and is not
// Ready while the process for HelmOps has not looked at its spec, or its source fails.
func helmOpStatus(_ *testing.T, w *world, _ *agent) {
	op := w.create(&fleet.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "chart"}}).(*fleet.HelmOp)
	ready := func() string {
		c := condition.Find(get[*fleet.HelmOp](w, in("chart")).Status.Conditions, fleet.ConditionReady)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Message
	}
	accept := func(kind string, status corev1.ConditionStatus, text string) {
		setStatus(w, kube.KeyOf(op), func(op *fleet.HelmOp) {
			op.Status.Conditions = condition.Set(op.Status.Conditions, fleet.Condition{
				Type: kind, Status: status, Message: text, ObservedGeneration: op.Generation,
			}, time.Now())
		})
	}
	sees(w, "a new HelmOp", "False the changed spec was not looked at yet", ready)
	accept(fleet.ConditionAccepted, corev1.ConditionTrue, "")
	sees(w, "a HelmOp without Bundle", "False no bundle was made from the chart yet", ready)
	b := bundle("chart", "", everywhere())
	b.Labels = map[string]string{fleet.LabelHelmOpName: "chart"}
	b.Spec.Resources, b.Spec.HelmOpOptions = nil, &fleet.BundleHelmOptions{}
	b.Spec.Helm = &fleet.HelmOptions{Repo: "https://example.com", Chart: "web", Version: "1.0.0"}
	w.create(b)
	sees(w, "a HelmOp that is deployed", "True ", ready)
	if st := get[*fleet.HelmOp](w, in("chart")).Status; st.Summary.Ready != 2 || st.DesiredReadyClusters != 2 || st.Display.ReadyBundleDeployments != "2/2" {
		w.t.Errorf("got %+v", st)
	}
	sees(w, "a cluster counts it", "1/1", func() string {
		st := get[*fleet.Cluster](w, in("c1")).Status
		return fmt.Sprintf("%d/%d", st.ReadyHelmOps, st.DesiredReadyHelmOps)
	})
	accept(fleet.ConditionPolled, corev1.ConditionFalse, "the repository is away")
	sees(w, "a HelmOp whose source fails", "False the repository is away", ready)
	accept(fleet.ConditionPolled, corev1.ConditionTrue, "")
	sees(w, "its source is back", "True ", ready)
	remove[*fleet.Bundle](w, in("chart"))
	sees(w, "its Bundle is gone", "False no bundle was made from the chart yet", ready)
	remove[*fleet.HelmOp](w, in("chart"))
}

// offlineKeepsItsOrder: a Bundle that is deleted while a cluster is away does
// not wait for it, and the cluster finds its order when it is back.
func offlineKeepsItsOrder(_ *testing.T, w *world, c1 *agent) {
	c1.set(func() { c1.online = false })
	sees(w, "silence is noticed", "Offline", func() string { return get[*fleet.Cluster](w, in("c1")).Status.Display.State })
	sees(w, "Ready is as it was reported", "True", clusterReady(w, "c1"))
	remove[*fleet.Bundle](w, in("late"))
	w.until("the Bundle goes", func() bool { return get[*fleet.Bundle](w, in("late")) == nil })
	sees(w, "the order stays", "c1!", w.on("late"))
	c1.set(func() { c1.online = true })
	sees(w, "and is carried out", "", w.on("late"))
	sees(w, "Ready again", "True", clusterReady(w, "c1"))
}

// restartWritesNothing: at rest and after a restart no object changes.
func restartWritesNothing(t *testing.T, w *world, _ *agent) {
	sees(w, "at rest", "True", repoReady(w, "repo"))
	versions := func() map[string]string {
		out := map[string]string{}
		for _, name := range []string{"web", "prod", "grouped", "new"} {
			out["bundle "+name] = get[*fleet.Bundle](w, in(name)).ResourceVersion
			out["deployment "+name] = w.deployment(name, "c2").ResourceVersion
		}
		out["repo"] = get[*fleet.GitRepo](w, in("repo")).ResourceVersion
		out["group"] = get[*fleet.ClusterGroup](w, in("all")).ResourceVersion
		return out
	}
	before := versions()
	w.until("nothing is written for longer than a window of status writes", func() bool {
		last := before
		time.Sleep(1500 * time.Millisecond)
		before = versions()
		return maps.Equal(last, before)
	})
	w.halt()
	w.start()
	update(w, in("c2"), func(c *fleet.Cluster) { c.Labels["probe"] = "x" }) // a label that nothing asks for
	w.create(bundle("probe", "x", where("probe", "x")))
	sees(w, "the engine works", "c2", w.on("probe"))
	sees(w, "and has reported", "True", bundleReady(w, "probe"))
	time.Sleep(1500 * time.Millisecond) // longer than a window of status writes
	for what, version := range versions() {
		if what != "repo" && what != "group" && version != before[what] {
			t.Errorf("%s was written without a reason", what)
		}
	}
}
