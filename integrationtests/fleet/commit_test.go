package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// Ready is never early: at the first moment at which a GitRepo says that a
// commit is Ready, every cluster has it.
func TestReadyIsNeverEarly(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("early")
	repo.Write("app/fleet.yaml", harness.FleetYAML("early"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "0"))
	repo.DeployReady("0", 2)
	for i := range 5 {
		next := fmt.Sprint(i + 1)
		repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", next))
		commit := repo.Hold(next)
		ready := repo.ReadyAt(commit)

		repo.Push()

		select {
		case <-ready:
		case <-time.After(harness.Timeout):
			t.Fatalf("commit %s is not Ready", next)
		}
		for _, m := range w.Downstream() {
			if diff := cmp.Diff(harness.ConfigMapData(next), harness.Data(w, m, "early", "app")()); diff != "" {
				t.Errorf("Ready before %s had commit %s\n-want +got\n%s", m.Name, next, diff)
			}
		}
	}
}

// Workloads that take their time become Ready, each one of many.
func TestManyWorkloads(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("many")
	for i := range 12 {
		dir := fmt.Sprintf("app%02d", i)
		repo.Write(dir+"/fleet.yaml", harness.FleetYAML("many"))
		repo.Write(dir+"/deployment.yaml", harness.DeploymentYAML(dir, "test/many"))
	}
	for _, m := range w.Downstream() {
		w.LabelNodes(m, "test/many")
	}
	repo.DeployReady("many apps", 24)
}

// A second commit that changes one value deploys the bundle it changed, and
// leaves the other one as it is: not written, not redeployed.
func TestSecondCommitDeploysOnlyWhatChanged(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("second")
	for _, dir := range []string{"changed", "same"} {
		repo.Write(dir+"/fleet.yaml", harness.FleetYAML("second"))
		repo.Write(dir+"/settings.yaml", harness.ConfigMapYAML(dir, "one"))
	}
	first := repo.DeployReady("first", 4)
	before := map[string]trace{}
	for _, m := range w.Downstream() {
		before[m.Name] = look(w, repo, m, "second-same", "same")
	}
	revision := repo.Release(w.C1, "second-changed").Revision

	repo.Write("changed/settings.yaml", harness.ConfigMapYAML("changed", "two"))
	second := repo.Commit("second")

	repo.EventuallyReady(second, 4)
	for _, m := range w.Downstream() {
		harness.Eventually(w, "the new value on "+m.Name, harness.Data(w, m, "second", "changed"), harness.ConfigMapData("two"))
		harness.Eventually(w, "the other bundle on "+m.Name, func() trace { return look(w, repo, m, "second-same", "same") }, before[m.Name])
	}
	if got := repo.Release(w.C1, "second-changed").Revision; got != revision+1 {
		t.Errorf("one commit, one revision: want %d, got %d", revision+1, got)
	}
	if got := repo.Deployment(w.C1, "second-same").Labels[fleet.LabelCommit]; got != first {
		t.Errorf("the bundle was last changed by %s, its deployment says %s", first, got)
	}
}

// A trace holds what a write to a deployment or to its objects would change.
type trace struct {
	Generation   int64  // of the BundleDeployment: grows with each write to its spec
	DeploymentID string // what it asks for
	Release      string // the Helm release with its revision
	UID          types.UID
	Version      string // of the ConfigMap in the cluster
}

func look(w *harness.World, repo *harness.Repository, m *harness.Member, bundle, object string) trace {
	d := repo.Deployment(m, bundle)
	seen := trace{Generation: d.Generation, DeploymentID: d.Spec.DeploymentID, Release: d.Status.Release}
	if obj, ok := harness.Get[*corev1.ConfigMap](w, m, repo.Name, object); ok {
		seen.UID, seen.Version = obj.UID, obj.ResourceVersion
	}
	return seen
}

// A commit that touches one directory of twenty writes neither Bundles nor
// BundleDeployments of the other nineteen.
func TestOneDirectoryOfTwenty(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("twenty")
	for i := range 20 {
		dir := fmt.Sprintf("dir%02d", i)
		repo.Write(dir+"/fleet.yaml", harness.FleetYAML("twenty"))
		repo.Write(dir+"/settings.yaml", harness.ConfigMapYAML(dir, "one"))
	}
	repo.DeployReady("twenty directories", 40)
	versions := func() map[string]string {
		seen := map[string]string{}
		for _, d := range repo.Deployments(nil) {
			if d.Name != "twenty-dir07" {
				seen[kube.KeyOf(d).String()] = d.ResourceVersion
			}
		}
		for _, b := range repo.Bundles() {
			if b.Name != "twenty-dir07" {
				seen["Bundle "+b.Name] = b.ResourceVersion
			}
		}
		return seen
	}
	for _, b := range repo.Bundles() { // the status of the GitRepo may be written before that of its Bundles
		harness.Eventually(w, b.Name+" says that it is Ready", func() string {
			now, _ := harness.Get[*fleet.Bundle](w, w.Local, b.Namespace, b.Name)
			return fmt.Sprintf("%s %t", now.Status.Display.ReadyClusters, condition.IsTrue(now.Status.Conditions, fleet.ConditionReady))
		}, "2/2 true")
	}
	before := versions()
	mark := w.Now()

	repo.Write("dir07/settings.yaml", harness.ConfigMapYAML("dir07", "two"))
	repo.EventuallyReady(repo.Commit("one of them"), 40)

	harness.Throughout(w, watchFor, "the other nineteen stay as they are", versions, before)
	wrote := w.Requests(mark, func(r harness.Request) bool {
		return r.Writes() && r.Ours() && (r.Resource == "bundledeployments" || r.Resource == "bundles") && r.Name != "twenty-dir07"
	}, w.Local)
	if len(wrote) > 0 {
		t.Errorf("written, though nothing has changed there:\n%s", harness.Lines(wrote))
	}
}

// A directory that is removed from git is uninstalled, in order: the manager
// marks the deployment, the agent uninstalls and acknowledges the order, then
// the deployment goes. What another release has stays.
func TestRemovedDirectoryIsUninstalled(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("removed")
	for _, dir := range []string{"keep", "drop"} {
		repo.Write(dir+"/fleet.yaml", harness.FleetYAML("removed"))
		repo.Write(dir+"/settings.yaml", harness.ConfigMapYAML(dir, "one"))
	}
	repo.DeployReady("two directories", 4)
	before := look(w, repo, w.C1, "removed-keep", "keep")
	history := repo.Follow("removed-drop")

	repo.Remove("drop")
	repo.EventuallyReady(repo.Commit("one directory"), 2)

	for _, m := range w.Downstream() {
		harness.Eventually(w, "the object is gone from "+m.Name, harness.Gone[*corev1.ConfigMap](w, m, "removed", "drop"), true)
		harness.Eventually(w, "the release is gone from "+m.Name, func() int {
			return len(harness.List[*corev1.Secret](w, m, "removed", "owner=helm,name=removed-drop"))
		}, 0)
		harness.Eventually(w, "the deployment is gone from "+m.Name, harness.Gone[*fleet.BundleDeployment](w, w.Local, w.Namespace(m), "removed-drop"), true)
	}
	harness.Eventually(w, "what stays", func() trace { return look(w, repo, w.C1, "removed-keep", "keep") }, before)
	for _, m := range w.Downstream() {
		if err := acknowledged(history.Of(w.Namespace(m))); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// acknowledged reports, from the versions of a deployment, whether it was
// withdrawn in order.
func acknowledged(life []*fleet.BundleDeployment) error {
	order := ""
	for _, d := range life {
		mark := d.Annotations[fleet.AnnotationWithdrawn]
		if order == "" && mark != "" && d.Status.Release == "" {
			return fmt.Errorf("the release was gone before the order %q", mark)
		}
		order = mark
	}
	if order == "" {
		return fmt.Errorf("deleted without an order, in %d versions", len(life))
	}
	last := life[len(life)-1]
	for _, c := range last.Status.Conditions {
		if c.Type == fleet.ConditionWithdrawn && c.Status == corev1.ConditionTrue && c.Message == order &&
			c.Reason == fleet.ReasonUninstalled && last.Status.AppliedDeploymentID == "" && last.Status.Release == "" {
			return nil
		}
	}
	return fmt.Errorf("deleted before order %q was answered: %+v", order, last.Status)
}

// A label that is put on a cluster makes a bundle arrive there, and taking it
// away makes it leave; other clusters are not concerned.
func TestLabelMovesBundle(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("labelled")
	repo.Write("app/fleet.yaml", harness.FleetYAML("labelled"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "here"))
	commit := repo.Commit("for labelled clusters")
	repo.Deploy(func(s *fleet.GitRepoSpec) {
		s.Targets = []fleet.GitTarget{{Name: "chosen", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"test": "labelled"}}}}
	})
	nowhere := harness.State{Commit: commit, Counts: "0/0"}
	harness.Eventually(w, "meant for no cluster", repo.State, nowhere)

	w.Label(w.C1, "test", "labelled")

	repo.EventuallyReady(commit, 1)
	harness.Eventually(w, "arrived on c1", harness.Data(w, w.C1, "labelled", "app"), harness.ConfigMapData("here"))
	if !harness.Gone[*corev1.ConfigMap](w, w.C2, "labelled", "app")() {
		t.Error("c2 has no such label")
	}

	w.Label(w.C1, "test", "")

	harness.Eventually(w, "left c1", harness.Gone[*corev1.ConfigMap](w, w.C1, "labelled", "app"), true)
	harness.Eventually(w, "meant for no cluster again", repo.State, nowhere)
	harness.Eventually(w, "no deployment is left", func() int { return len(repo.Deployments(nil)) }, 0)
}

// The management cluster is a cluster like the others: what workspace
// fleet-local holds is deployed there, by an agent of its own in
// cattle-fleet-local-system.
func TestManagementClusterIsManaged(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("home")
	repo.Workspace = fleet.NamespaceLocal
	repo.Write("app/fleet.yaml", harness.FleetYAML("home"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "here"))
	commit := repo.Commit("for the management cluster")
	mark := w.Now()

	repo.Deploy(func(s *fleet.GitRepoSpec) { s.Targets = nil })

	repo.EventuallyReady(commit, 1)
	harness.Eventually(w, "arrived", harness.Data(w, w.Local, "home", "app"), harness.ConfigMapData("here"))
	if got := w.Cluster(w.Local).Status.Agent.Namespace; got != fleet.NamespaceLocalAgent {
		t.Errorf("the agent says that it lives in %q", got)
	}
	by := map[string]bool{}
	for _, r := range w.Requests(mark, func(r harness.Request) bool {
		return r.Writes() && r.Namespace == "home" && r.Name == "app" && r.Resource == "configmaps"
	}, w.Local) {
		by[r.User] = true
	}
	if agent := "system:serviceaccount:" + fleet.NamespaceLocalAgent + ":fleet-agent"; len(by) != 1 || !by[agent] {
		t.Errorf("want the object written by %s alone, got %v", agent, by)
	}
}
