package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// watchFor is how long a test watches that something does not happen.
const watchFor = 2 * time.Second

// An agent that was stopped for ten commits deploys the last one and none of
// those between.
func TestStoppedAgentCatchesUpWithTheLastCommit(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("away")
	repo.Write("app/fleet.yaml", harness.FleetYAML("away"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "zero"))
	repo.DeployReady("before", 2)
	revision := repo.Release(w.C2, "away-app").Revision

	w.StopAgent(w.C2)
	var commit string
	for i := range 10 {
		repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", fmt.Sprint("commit ", i+1)))
		commit = repo.Commit(fmt.Sprint("commit ", i+1))
		harness.Eventually(w, "the order for c2", func() string { return repo.Deployment(w.C2, "away-app").Labels[fleet.LabelCommit] }, commit)
	}
	harness.Eventually(w, "c1 goes on", harness.Data(w, w.C1, "away", "app"), harness.ConfigMapData("commit 10"))
	if got := harness.Data(w, w.C2, "away", "app")(); got["value"] != "zero" {
		t.Errorf("c2 has no agent, but shows %v", got)
	}

	w.StartAgent(w.C2)

	repo.EventuallyReady(commit, 2)
	harness.Eventually(w, "c2 has the last one", harness.Data(w, w.C2, "away", "app"), harness.ConfigMapData("commit 10"))
	if got := repo.Release(w.C2, "away-app").Revision; got != revision+1 {
		t.Errorf("ten commits, one revision: want %d, got %d", revision+1, got)
	}
}

// A cluster that cannot reach the manager becomes Offline, keeps what runs
// there and does not hold up other clusters; back on the net it takes the
// newest version.
func TestClusterOffTheNet(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("ship")
	repo.Write("app/fleet.yaml", harness.FleetYAML("ship"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	repo.DeployReady("one", 2)

	w.Cut(w.C2)
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "two"))
	commit := repo.Commit("two")

	harness.Eventually(w, "c1 goes on", harness.Data(w, w.C1, "ship", "app"), harness.ConfigMapData("two"))
	harness.Eventually(w, "c2 is Offline", func() string { return w.Cluster(w.C2).Status.Display.State }, fleet.Offline)
	harness.Eventually(w, "c2 keeps what runs", harness.Data(w, w.C2, "ship", "app"), harness.ConfigMapData("one"))

	w.Heal(w.C2)

	repo.EventuallyReady(commit, 2)
	harness.Eventually(w, "c2 has the newest", harness.Data(w, w.C2, "ship", "app"), harness.ConfigMapData("two"))
	harness.Eventually(w, "c2 is Offline no more", func() bool { return w.Cluster(w.C2).Status.Display.State == fleet.Offline }, false)
}

// A manager that is killed in the middle of a rollout ends what it began when
// it is back: everything Ready, everything deployed once.
func TestKilledManagerConverges(t *testing.T) {
	const bundles = 40
	w := harness.Open(t)
	repo := w.Repository("killed")
	write := func(value string) {
		for i := range bundles {
			dir := fmt.Sprintf("dir%02d", i)
			repo.Write(dir+"/fleet.yaml", harness.FleetYAML("killed"))
			repo.Write(dir+"/settings.yaml", harness.ConfigMapYAML(dir, value))
		}
	}
	write("one")
	repo.DeployReady("one", 2*bundles)

	// A manager that has written everything before it was killed has to try again: who
	// is to kill it may be late.
	revision, last := 1, ""
	for there := 0; there == 0 || there == 2*bundles; {
		if revision++; revision > 6 {
			t.Fatal("the manager was never killed in the middle")
		}
		last = fmt.Sprint("revision ", revision)
		write(last)
		commit := repo.Hold(last)
		middle := repo.Reached(commit, bundles/4)
		repo.Push()
		select {
		case <-middle:
		case <-time.After(harness.Timeout):
			t.Fatal("the rollout did not begin")
		}
		w.KillManager()
		there = 0
		for _, d := range repo.Deployments(nil) {
			if d.Labels[fleet.LabelCommit] == commit {
				there++
			}
		}
		t.Logf("killed after %d of %d deployments", there, 2*bundles)
		w.StartManager()
		repo.EventuallyReady(commit, 2*bundles)
	}
	for _, m := range w.Downstream() {
		for _, d := range repo.Deployments(m) {
			release, err := harness.ParseRelease(d.Status.Release)
			if err != nil || release.Revision != revision {
				t.Errorf("%s: %[2]d commits, %[2]d revisions: got %[3]q", kube.KeyOf(d), revision, d.Status.Release)
			}
		}
		harness.Eventually(w, "the last one on "+m.Name, harness.Data(w, m, "killed", "dir39"), harness.ConfigMapData(last))
	}
}

// Deleting a cluster's namespace on the manager removes nothing from the
// cluster: no object there is deleted or created again, and the manager
// restores the namespace and its deployments.
func TestDeletedClusterNamespaceComesBack(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("mishap")
	repo.Write("app/fleet.yaml", harness.FleetYAML("mishap"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	repo.Write("app/deployment.yaml", harness.DeploymentYAML("app", "test/mishap"))
	for _, m := range w.Downstream() {
		w.LabelNodes(m, "test/mishap")
	}
	commit := repo.DeployReady("one", 2)
	namespace, ok := harness.Get[*corev1.Namespace](w, w.Local, "", w.Namespace(w.C1))
	if !ok {
		t.Fatal("no namespace of c1")
	}
	before := look(w, repo, w.C1, "mishap-app", "app")
	uid := repo.Deployment(w.C1, "mishap-app").UID
	mark := w.Now()

	harness.Delete(w, w.Local, namespace)

	w.Until("the namespace comes back", func() string {
		now, ok := harness.Get[*corev1.Namespace](w, w.Local, "", namespace.Name)
		if !ok || now.UID == namespace.UID {
			return "not yet"
		}
		return ""
	})
	w.Until("the deployment comes back", func() string {
		d, ok := harness.Get[*fleet.BundleDeployment](w, w.Local, namespace.Name, "mishap-app")
		if !ok || d.UID == uid {
			return "not yet"
		}
		return ""
	})
	repo.EventuallyReady(commit, 2)
	harness.Eventually(w, "nothing was touched", func() trace {
		after := look(w, repo, w.C1, "mishap-app", "app")
		after.Generation = before.Generation // of another object
		return after
	}, before)
	deleted := w.Requests(mark, func(r harness.Request) bool {
		return r.Ours() && strings.HasPrefix(r.Verb, "delete") && r.Namespace == "mishap"
	}, w.C1)
	if len(deleted) > 0 {
		t.Errorf("deleted in c1:\n%s", harness.Lines(deleted))
	}

	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "two"))
	repo.EventuallyReady(repo.Commit("two"), 2)
	harness.Eventually(w, "the next commit arrives as ever", harness.Data(w, w.C1, "mishap", "app"), harness.ConfigMapData("two"))
}

// A BundleDeployment that a user deletes by hand comes back, and nothing is
// deployed again.
func TestDeletedDeploymentComesBack(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("byhand")
	repo.Write("app/fleet.yaml", harness.FleetYAML("byhand"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	commit := repo.DeployReady("one", 2)
	before := look(w, repo, w.C1, "byhand-app", "app")
	old := repo.Deployment(w.C1, "byhand-app")

	harness.Delete(w, w.Local, old)

	w.Until("it comes back", func() string {
		d, ok := harness.Get[*fleet.BundleDeployment](w, w.Local, old.Namespace, old.Name)
		if !ok || d.UID == old.UID {
			return "not yet"
		}
		return ""
	})
	repo.EventuallyReady(commit, 2)
	before.Generation = 1
	now := func() trace { return look(w, repo, w.C1, "byhand-app", "app") }
	harness.Eventually(w, "the agent reports what runs", now, before)
	harness.Throughout(w, watchFor, "nothing was touched", now, before)
}

// What a user changes by hand in a cluster is reported.
func TestDriftIsReported(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("drift")
	repo.Write("app/fleet.yaml", harness.FleetYAML("drift"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	commit := repo.DeployReady("one", 2)
	set := func(v string) {
		object, _ := harness.Get[*corev1.ConfigMap](w, w.C1, "drift", "app")
		harness.Change(w, w.C1, object, func(c *corev1.ConfigMap) { c.Data["value"] = v })
	}

	set("by hand")

	harness.Eventually(w, "Modified on c1", func() string { return repo.Deployment(w.C1, "drift-app").Status.Display.State }, string(fleet.Modified))
	harness.Eventually(w, "the GitRepo says so", repo.State, harness.State{Commit: commit, Counts: "1/2"})

	set("one")
	repo.EventuallyReady(commit, 2)
}

// The brake holds the whole fleet within five seconds: nothing new is read,
// planned or deployed; and it lets go again.
func TestBrake(t *testing.T) {
	w := harness.Open(t)
	repo := w.Repository("brake")
	repo.Write("app/fleet.yaml", harness.FleetYAML("brake"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "one"))
	repo.DeployReady("one", 2)

	w.CLI("suspend", "--all", "--reason", "a test")
	t.Cleanup(func() { w.CLI("resume", "--all") })
	// From the fifth second on nothing may happen, so that the commit comes then.
	harness.Throughout(w, 5*time.Second, "what is there stays", harness.Data(w, w.C1, "brake", "app"), harness.ConfigMapData("one"))
	repo.Write("app/settings.yaml", harness.ConfigMapYAML("app", "two"))
	second := repo.Commit("two")
	before := look(w, repo, w.C1, "brake-app", "app")
	harness.Throughout(w, 5*time.Second, "held", func() trace { return look(w, repo, w.C1, "brake-app", "app") }, before)
	if why := harness.Missing(w.CLI("status"), "a test"); why != "" {
		t.Errorf("fleet status does not say that the brake is on: %s", why)
	}

	w.CLI("resume", "--all")

	repo.EventuallyReady(second, 2)
	harness.Eventually(w, "let go", harness.Data(w, w.C1, "brake", "app"), harness.ConfigMapData("two"))
}
