package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// The agent's part of the contract with its manager.
func TestAgent(t *testing.T) {
	t.Parallel()
	w := newAgentWorld(t)
	w.registered()
	w.start()
	for _, test := range []struct {
		name string
		run  func(*agentWorld)
	}{
		{"Deploys", agentDeploys}, {"ReadyFromLiveObjects", agentReadyFromLive}, {"Values", agentValues}, {"Drift", agentDrift},
		{"Broken", agentBroken}, {"NotOwned", agentNotOwned}, {"Withdraws", agentWithdraws}, {"Renamed", agentRenamed}, {"ReleaseRenamed", agentReleaseRenamed},
		{"Behind", agentBehind}, {"Vanished", agentVanished}, {"Interrupted", agentInterrupted}, {"Depends", agentDepends},
		{"Paused", agentPaused}, {"Large", agentLarge}, {"Parts", agentParts}, {"Alone", agentAlone},
	} {
		t.Run(test.name, func(t *testing.T) {
			sub := *w
			sub.T = t
			test.run(&sub)
		})
	}
}

func agentDeploys(w *agentWorld) {
	start := time.Now()
	w.order("first", spec{files: []string{"a.yaml", cm("a", "one")}})
	bd := w.state("first", fleet.Ready)
	took := time.Since(start)
	w.Logf("ordered to Ready: %v", took)
	if bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID || bd.Status.Release != "first/first:1" || !bd.Status.NonModified {
		w.Errorf("status %+v", bd.Status)
	}
	want := fleet.BundleDeploymentDisplay{Deployed: "True", Monitored: "True", State: "Ready"}
	if diff := cmp.Diff(want, bd.Status.Display); diff != "" {
		w.Errorf("display: -want +got\n%s", diff)
	}
	if len(bd.Status.Resources) != 1 || bd.Status.Resources[0].CreatedAt.IsZero() || bd.Status.ResourceCounts.Ready != 1 {
		w.Errorf("resources %+v, counts %+v", bd.Status.Resources, bd.Status.ResourceCounts)
	}
	for _, c := range []string{fleet.ConditionReady, fleet.ConditionDeployed, fleet.ConditionInstalled, fleet.ConditionMonitored} {
		if !condition.IsTrue(bd.Status.Conditions, c) {
			w.Errorf("condition %s is not true", c)
		}
	}
	status := func() (n int) {
		for _, line := range w.writes("first", start) {
			if strings.Contains(line, "bundledeployments/status "+deployNS+"/first ") {
				n++
			}
		}
		return n
	}
	harness.Wait(w.T, harness.Timeout, "the status write is recorded", func() bool { return status() > 0 })
	if n := status(); n > 1+int(took/time.Second) { // the agent writes the status at most once a second on its way to Ready
		w.Errorf("Ready after %s with %d status writes:\n%s", took, n, strings.Join(w.writes("first", start), "\n"))
	}
	var warm []time.Duration
	for i := range 5 {
		start := time.Now()
		w.order(fmt.Sprint("warm-", i), spec{files: []string{"a.yaml", cm("a", fmt.Sprint("v", i))}})
		w.state(fmt.Sprint("warm-", i), fleet.Ready)
		warm = append(warm, time.Since(start))
	}
	slices.Sort(warm)
	w.Logf("ordered to Ready, warm: median %v", warm[len(warm)/2])
	w.order("first", spec{files: []string{"a.yaml", cm("a", "two")}})
	bd = w.state("first", fleet.Ready)
	if bd.Status.Release != "first/first:2" || w.data("first", "a") != "two" {
		w.Errorf("release %q, data %q", bd.Status.Release, w.data("first", "a"))
	}
	var cluster *fleet.Cluster
	harness.Wait(w.T, harness.Timeout, "the agent checks in", func() bool {
		var err error
		cluster, err = w.clusters.Get(w.Context(), kube.Key{Namespace: workspace, Name: "c1"})
		must(w.T, err)
		return !cluster.Status.Agent.LastSeen.IsZero()
	})
	a := cluster.Status.Agent
	if a.LastSeen.IsZero() || a.Namespace != agentNS || a.Version != "v0.1.0-test" || a.Kubernetes == "" || a.Instance == "" {
		w.Errorf("sign of life %+v", a)
	}
	found := false
	for _, f := range cluster.ManagedFields {
		found = found || f.Manager == fleet.FieldManagerAgent && f.Subresource == "status"
	}
	if !found {
		w.Errorf("no entry of %s among the managed fields", fleet.FieldManagerAgent)
	}
}

const webDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: x, image: nowhere.example/x:1}]}}
`

func agentReadyFromLive(w *agentWorld) {
	w.order("live", spec{files: []string{"a.yaml", webDeployment}})
	bd := w.state("live", fleet.Ready)
	d, err := kube.StoreOf[*appsv1.Deployment](w.admin).Get(w.Context(), kube.Key{Namespace: "live", Name: "web"})
	must(w.T, err)
	if d.Status.AvailableReplicas != 2 {
		w.Errorf("Ready with %d replicas, release %s", d.Status.AvailableReplicas, bd.Status.Release)
	}
	// A Deployment that never becomes available: nothing schedules its pods.
	stuck := strings.Replace(webDeployment, "containers:", "nodeSelector: {no: where}, containers:", 1)
	w.order("stuck", spec{files: []string{"a.yaml", stuck}})
	bd = w.state("stuck", fleet.NotReady)
	if len(bd.Status.NonReadyStatus) != 1 || bd.Status.ResourceCounts.NotReady != 1 {
		w.Errorf("status %+v", bd.Status)
	}
	w.order("stuck", spec{files: []string{"a.yaml", webDeployment}})
	w.state("stuck", fleet.Ready)
}

func agentValues(w *agentWorld) {
	chart := []string{"Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n", "templates/c.yaml", cm("c", "{{ .Values.text }}")}
	// The Secret of another version is there first: nothing is deployed.
	bd := w.order("vals", spec{files: chart, values: map[string]any{"text": "good"}, change: func(bd *fleet.BundleDeployment) {
		bd.Spec.ValuesHash = strings.Repeat("0", 64)
	}})
	w.state("vals", fleet.WaitApplied)
	if w.data("vals", "c") != "" {
		w.Error("deployed with values of another version")
	}
	_ = bd
	w.order("vals", spec{files: chart, values: map[string]any{"text": "good"}})
	w.state("vals", fleet.Ready)
	if w.data("vals", "c") != "good" {
		w.Errorf("got %q", w.data("vals", "c"))
	}
}

func agentDrift(w *agentWorld) {
	files := []string{"a.yaml", cm("a", "one"), "b.yaml", cm("b", "one")}
	w.order("drift", spec{files: files})
	w.state("drift", fleet.Ready)
	w.edit("drift", "a", "edited")
	bd := w.state("drift", fleet.Modified)
	if len(bd.Status.ModifiedStatus) != 1 || bd.Status.ModifiedStatus[0].String() != `configmap.v1 drift/a modified {"data":{"k":"edited"}}` {
		w.Errorf("modified %v", bd.Status.ModifiedStatus)
	}
	w.edit("drift", "a", "one")
	w.state("drift", fleet.Ready)
	must(w.T, kube.StoreOf[*corev1.ConfigMap](w.admin).Delete(w.Context(), kube.Key{Namespace: "drift", Name: "b"}, kube.Precondition{}))
	bd = w.state("drift", fleet.Modified)
	if bd.Status.ResourceCounts.Missing != 1 {
		w.Errorf("counts %+v", bd.Status.ResourceCounts)
	}
	// correctDrift is no part of the deployment id: nothing is redeployed, but
	// what is missing comes back.
	w.order("drift", spec{files: files, options: fleet.BundleDeploymentOptions{CorrectDrift: &fleet.CorrectDrift{Enabled: true}}})
	w.state("drift", fleet.Ready)
	w.edit("drift", "a", "again")
	harness.Wait(w.T, harness.Timeout, "the edit is undone", func() bool { return w.data("drift", "a") == "one" })
	w.state("drift", fleet.Ready)
}

func agentBroken(w *agentWorld) {
	good := []string{"a.yaml", cm("a", "one")}
	w.order("broken", spec{files: good})
	w.state("broken", fleet.Ready)
	bad := strings.Replace(webDeployment, "replicas", "replcas", 1)
	w.order("broken", spec{files: []string{"a.yaml", bad}})
	bd := w.state("broken", fleet.NotReady)
	c := condition.Find(bd.Status.Conditions, fleet.ConditionInstalled)
	if c == nil || c.Reason != release.ReasonInvalidObject || !strings.Contains(c.Message, `a.yaml: Deployment broken/web: unknown field "spec.replcas"`) {
		w.Errorf("condition %+v", c)
	}
	if !condition.IsTrue(bd.Status.Conditions, fleet.ConditionStalled) || bd.Status.Release != "" {
		w.Errorf("status %+v", bd.Status)
	}
	if before, _ := summary.Upgrade(bd); !strings.HasPrefix(before, "broken/") || !strings.HasSuffix(before, ":1 still runs") {
		w.Errorf("it does not say that the release before still runs, but %q", before)
	}
	if w.data("broken", "a") != "one" {
		w.Error("the good state before was not kept")
	}
	// A template that fails is not counted as applied.
	w.order("broken", spec{files: []string{"templates/a.yaml", "{{ fail \"no\" }}"}})
	bd = w.state("broken", fleet.ErrApplied)
	if c := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed); c.Reason != release.ReasonBadTemplate {
		w.Errorf("condition %+v", c)
	}
	// At rest with a failure for ever nothing is written.
	harness.Wait(w.T, harness.Timeout, "the failure is kept", func() bool { return strings.Contains(w.record("broken"), release.ReasonBadTemplate) })
	since := time.Now()
	time.Sleep(3 * time.Second)
	if got := w.writes("broken", since); len(got) > 0 {
		w.Errorf("written at rest:\n%s", strings.Join(got, "\n"))
	}
	w.order("broken", spec{files: good})
	w.state("broken", fleet.Ready)
}

// The object that blocks a bundle stays until another client removes it. The agent gets no event
// for that, and the bundle does not change.
func agentNotOwned(w *agentWorld) {
	ctx := w.Context()
	foreign, err := kube.StoreOf[*corev1.ConfigMap](w.admin).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: deployNS, Name: "in-the-way"}, Data: map[string]string{"k": "theirs"},
	})
	must(w.T, err)
	ordered := w.order("not-owned", spec{
		files: []string{"a.yaml", cm("in-the-way", "ours")}, options: fleet.BundleDeploymentOptions{DefaultNamespace: deployNS},
	})
	bd := w.state("not-owned", fleet.NotReady)
	if c := condition.Find(bd.Status.Conditions, fleet.ConditionStalled); c == nil || c.Status != "True" || c.Reason != release.ReasonNotOwned {
		w.Errorf("condition %+v", c)
	}
	if w.data(deployNS, "in-the-way") != "theirs" {
		w.Error("it was taken over")
	}
	must(w.T, kube.StoreOf[*corev1.ConfigMap](w.admin).Delete(ctx, kube.KeyOf(foreign), kube.Precondition{}))
	bd = w.state("not-owned", fleet.Ready)
	if bd.Generation != ordered.Generation || w.data(deployNS, "in-the-way") != "ours" {
		w.Errorf("generation %d, data %q", bd.Generation, w.data(deployNS, "in-the-way"))
	}
}

// answered waits for the answer to an order to withdraw.
func (w *agentWorld) answered(name, order string) *fleet.BundleDeployment {
	w.Helper()
	var bd *fleet.BundleDeployment
	harness.Wait(w.T, harness.Timeout, "order "+order+" is answered", func() bool {
		bd = w.get(name)
		c := condition.Find(bd.Status.Conditions, fleet.ConditionWithdrawn)
		return c != nil && c.Status == "True" && c.Message == order
	})
	if bd.Status.AppliedDeploymentID != "" || bd.Status.Release != "" {
		w.Errorf("answered with %+v", bd.Status)
	}
	return bd
}

func (w *agentWorld) withdraw(name, order string) {
	w.Helper()
	w.mark(name, func(a map[string]string) { a[fleet.AnnotationWithdrawn] = order })
}

func agentWithdraws(w *agentWorld) {
	w.order("away", spec{files: []string{"a.yaml", cm("a", "one")}})
	w.state("away", fleet.Ready)
	w.withdraw("away", "o1")
	w.answered("away", "o1")
	if w.data("away", "a") != "" {
		w.Error("not uninstalled")
	}
	// Wanted again: the mark goes, the same id is installed again.
	w.mark("away", func(a map[string]string) { delete(a, fleet.AnnotationWithdrawn) })
	harness.Wait(w.T, harness.Timeout, "installed again", func() bool { return w.data("away", "a") == "one" })
	w.state("away", fleet.Ready)
	// keepResources: the objects stay.
	w.order("away", spec{files: []string{"a.yaml", cm("a", "two")}, options: fleet.BundleDeploymentOptions{KeepResources: true}})
	w.state("away", fleet.Ready)
	w.withdraw("away", "o2")
	w.answered("away", "o2")
	if w.data("away", "a") != "two" {
		w.Error("objects were removed in spite of keepResources")
	}
	secrets, err := kube.StoreOf[*corev1.Secret](w.admin).List(w.Context(), agentNS, "")
	must(w.T, err)
	for _, s := range secrets {
		if s.Type == fleet.SecretTypeAgentStore && strings.Contains(string(s.Data["deployment"]), `"name":"away"`) {
			w.Errorf("record %s is left", s.Name)
		}
	}
}

// A path is renamed: the new deployment is written before the old one is
// withdrawn. It must take over what both have, and nothing of it may go.
func agentRenamed(w *agentWorld) {
	o := fleet.BundleDeploymentOptions{DefaultNamespace: "rename"}
	w.order("old", spec{files: []string{"a.yaml", cm("a", "one"), "only.yaml", cm("only", "old")}, options: o, repo: "r"})
	w.state("old", fleet.Ready)
	before, err := kube.StoreOf[*corev1.ConfigMap](w.admin).Get(w.Context(), kube.Key{Namespace: "rename", Name: "a"})
	must(w.T, err)
	w.order("new", spec{files: []string{"a.yaml", cm("a", "two")}, options: o, repo: "r"})
	w.state("new", fleet.WaitApplied)
	w.withdraw("old", "o3")
	w.answered("old", "o3")
	w.state("new", fleet.Ready)
	after, err := kube.StoreOf[*corev1.ConfigMap](w.admin).Get(w.Context(), kube.Key{Namespace: "rename", Name: "a"})
	must(w.T, err)
	if before.UID != after.UID || after.Data["k"] != "two" {
		w.Errorf("the object was created again or is wrong: %v", after.Data)
	}
	if w.data("rename", "only") != "" {
		w.Error("what only the old one had is still there")
	}
	// The same with the same release name.
	o.Helm = &fleet.HelmOptions{ReleaseName: "fixed"}
	w.order("one", spec{files: []string{"b.yaml", cm("b", "one")}, options: o, repo: "r2"})
	w.state("one", fleet.Ready)
	w.order("two", spec{files: []string{"b.yaml", cm("b", "two")}, options: o, repo: "r2"})
	w.state("two", fleet.WaitApplied)
	w.withdraw("one", "o4")
	w.answered("one", "o4")
	w.state("two", fleet.Ready)
	if w.data("rename", "b") != "two" {
		w.Errorf("got %q", w.data("rename", "b"))
	}
}

// A deployment that changes its release leaves nothing behind.
func agentReleaseRenamed(w *agentWorld) {
	w.order("moving", spec{files: []string{"a.yaml", cm("a", "one")}})
	w.state("moving", fleet.Ready)
	w.order("moving", spec{files: []string{"a.yaml", cm("a", "one")}, options: fleet.BundleDeploymentOptions{DefaultNamespace: "moved"}})
	bd := w.state("moving", fleet.Ready)
	if bd.Status.Release != "moved/moving:1" {
		w.Errorf("release %q", bd.Status.Release)
	}
	harness.Wait(w.T, harness.Timeout, "the former release is gone", func() bool { return w.data("moving", "a") == "" })
	if w.data("moved", "a") != "one" {
		w.Error("the new one is not there")
	}
}

// A manager that was restored asks for the past.
func agentBehind(w *agentWorld) {
	w.order("behind", spec{files: []string{"a.yaml", cm("a", "one")}})
	w.order("behind", spec{files: []string{"a.yaml", cm("a", "two")}})
	w.state("behind", fleet.Ready)
	harness.Wait(w.T, harness.Timeout, "the new generation is kept", func() bool { return strings.Contains(w.record("behind"), `"generation":2`) })
	w.stop()
	// The record knows a later generation than the object has: the same as if
	// the object had become older.
	secrets := kube.StoreOf[*corev1.Secret](w.admin)
	list, err := secrets.List(w.Context(), agentNS, "")
	must(w.T, err)
	for _, s := range list {
		text := string(s.Data["deployment"])
		if s.Type == fleet.SecretTypeAgentStore && strings.Contains(text, `"name":"behind"`) {
			changed := s.DeepCopy()
			changed.Data["deployment"] = []byte(strings.Replace(text, `"generation":2`, `"generation":99`, 1))
			_, err := secrets.Patch(w.Context(), s, changed)
			must(w.T, err)
		}
	}
	w.order("behind", spec{files: []string{"a.yaml", cm("a", "one")}})
	w.start()
	bd := w.state("behind", fleet.WaitApplied)
	if c := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed); c.Reason != release.ReasonManagerBehind {
		w.Errorf("condition %+v", c)
	}
	if w.data("behind", "a") != "two" {
		w.Error("the workload was rolled back")
	}
}

// record is the record of a deployment in the agent's store.
func (w *agentWorld) record(name string) string {
	w.Helper()
	list, err := kube.StoreOf[*corev1.Secret](w.admin).List(w.Context(), agentNS, "")
	must(w.T, err)
	for _, s := range list {
		if text := string(s.Data["deployment"]); s.Type == fleet.SecretTypeAgentStore && strings.Contains(text, `"name":"`+name+`"`) {
			return text
		}
	}
	return ""
}

// An object that is gone without an order is no order.
func agentVanished(w *agentWorld) {
	bd := w.order("lost", spec{files: []string{"a.yaml", cm("a", "one")}, options: fleet.BundleDeploymentOptions{CorrectDrift: &fleet.CorrectDrift{Enabled: true}}})
	w.state("lost", fleet.Ready)
	must(w.T, w.bds.Delete(w.Context(), kube.KeyOf(bd), kube.Precondition{}))
	orphans := func() []string {
		c, err := w.clusters.Get(w.Context(), kube.Key{Namespace: workspace, Name: "c1"})
		must(w.T, err)
		if c.Status.Agent.Orphans == nil {
			return nil
		}
		return c.Status.Agent.Orphans.Names
	}
	harness.Wait(w.T, harness.Timeout, "the orphan is reported", func() bool { return cmp.Equal(orphans(), []string{"lost"}) })
	w.edit("lost", "a", "edited")
	harness.Wait(w.T, harness.Timeout, "drift of an orphan is corrected", func() bool { return w.data("lost", "a") == "one" })
	harness.Wait(w.T, harness.Timeout, "the correction is recorded", func() bool {
		list, err := w.client.CoreV1().Secrets("lost").List(w.Context(), metav1.ListOptions{LabelSelector: "owner=helm,status=deployed,version=2"})
		return err == nil && len(list.Items) == 1
	})
	since := time.Now()
	w.order("lost", spec{files: []string{"a.yaml", cm("a", "one")}, options: fleet.BundleDeploymentOptions{CorrectDrift: &fleet.CorrectDrift{Enabled: true}}})
	w.state("lost", fleet.Ready)
	for _, line := range w.writes("lost", since) {
		if strings.Contains(line, "helm.release") {
			w.Errorf("the same id was deployed again: %s", line)
		}
	}
	harness.Wait(w.T, harness.Timeout, "no orphan any more", func() bool { return orphans() == nil })
}

// An agent that was killed in the middle of a release goes on.
func agentInterrupted(w *agentWorld) {
	w.order("killed", spec{files: []string{"a.yaml", cm("a", "one")}})
	w.state("killed", fleet.Ready)
	w.stop()
	id := release.ID{Namespace: "killed", Name: "killed"}
	must(w.T, harness.RewriteRelease(w.Context(), w.client, id, 1, "pending-install"))
	w.order("killed", spec{files: []string{"a.yaml", cm("a", "two")}})
	w.start()
	w.state("killed", fleet.Ready)
	if w.data("killed", "a") != "two" {
		w.Errorf("got %q", w.data("killed", "a"))
	}
	w.stop()
	must(w.T, harness.RewriteRelease(w.Context(), w.client, id, 2, "pending-rollback"))
	w.start()
	harness.Wait(w.T, harness.Timeout, "the release is taken up again", func() bool {
		list, err := w.client.CoreV1().Secrets("killed").List(w.Context(), metav1.ListOptions{LabelSelector: "owner=helm,status=deployed"})
		return err == nil && len(list.Items) > 0
	})
	w.state("killed", fleet.Ready)
}

func agentDepends(w *agentWorld) {
	w.order("needs", spec{files: []string{"a.yaml", cm("a", "one")}, change: func(bd *fleet.BundleDeployment) {
		bd.Spec.DependsOn = []fleet.BundleRef{{Name: "needed"}}
	}})
	bd := w.state("needs", fleet.ErrApplied)
	if c := condition.Find(bd.Status.Conditions, fleet.ConditionDeployed); !strings.Contains(c.Message, "no bundles matching labels "+fleet.LabelBundleName+"=needed,") {
		w.Errorf("condition %+v", c)
	}
}

func agentPaused(w *agentWorld) {
	w.order("paused", spec{files: []string{"a.yaml", cm("a", "one")}})
	w.state("paused", fleet.Ready)
	harness.Wait(w.T, harness.Timeout, "the store is at rest as well", func() bool {
		list, err := kube.StoreOf[*corev1.Secret](w.admin).List(w.Context(), agentNS, fleet.LabelManagerID)
		must(w.T, err)
		return !slices.ContainsFunc(list, func(s *corev1.Secret) bool { return strings.Contains(s.Name, "paused") && len(s.Data["content"]) > 0 })
	})
	since := time.Now()
	pause := func(on bool) func(*fleet.BundleDeployment) {
		return func(bd *fleet.BundleDeployment) { bd.Spec.Paused = on }
	}
	w.order("paused", spec{files: []string{"a.yaml", cm("a", "two")}, change: pause(true)})
	w.order("later", spec{files: []string{"a.yaml", cm("a", "one")}})
	w.state("later", fleet.Ready) // the agent has seen both
	if got := w.writes("paused", since); len(got) > 0 || w.data("paused", "a") != "one" {
		w.Errorf("a pause was not kept: %v", got)
	}
	w.order("paused", spec{files: []string{"a.yaml", cm("a", "two")}, change: pause(false)})
	w.state("paused", fleet.Ready)
}

// A payload that does not fit into one Secret is kept in several until it is
// deployed, and then in none.
func agentLarge(w *agentWorld) {
	noise := make([]byte, 1_300_000)
	for i := range noise {
		noise[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[rand.IntN(64)]
	}
	pieces := func() int {
		list, err := kube.StoreOf[*corev1.Secret](w.admin).List(w.Context(), agentNS, "fleet.cattle.io/chunk-of")
		must(w.T, err)
		return len(list)
	}
	w.order("large", spec{files: []string{"a.yaml", cm("a", "one"), "noise.txt", string(noise)}, options: fleet.BundleDeploymentOptions{ServiceAccount: "later"}})
	w.state("large", fleet.ErrApplied) // accepted, and waits for its account
	if pieces() == 0 {
		w.Error("the payload is not kept")
	}
	must(w.T, kube.StoreOf[*fleet.Content](w.admin).Delete(w.Context(), kube.Key{Name: strings.Split(w.get("large").Spec.DeploymentID, ":")[0]}, kube.Precondition{}))
	_, err := kube.StoreOf[*corev1.ServiceAccount](w.admin).Create(w.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: agentNS, Name: "later"}})
	must(w.T, err)
	_, err = w.client.RbacV1().ClusterRoleBindings().Create(w.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "later"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: agentNS, Name: "later"}},
	}, metav1.CreateOptions{})
	must(w.T, err)
	w.state("large", fleet.Ready) // without asking the manager for the content again
	harness.Wait(w.T, harness.Timeout, "the payload is dropped", func() bool { return pieces() == 0 })
}

// A content that is kept in parts is read part by part. What is not there, or not
// what it should be, is waited for and never believed.
func agentParts(w *agentWorld) {
	noise := make([]byte, 1_300_000)
	for i := range noise {
		noise[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[rand.IntN(64)]
	}
	p, err := content.Pack(content.Manifest{Resources: []fleet.BundleResource{
		{Name: "a.yaml", Content: cm("a", "one")}, {Name: "noise.txt", Content: string(noise)}}})
	must(w.T, err)
	all := p.Contents()
	contents := kube.StoreOf[*fleet.Content](w.admin)
	put := func(c *fleet.Content) {
		w.Helper()
		_, err := contents.Create(w.Context(), c)
		must(w.T, err)
	}
	if len(all) != 3 {
		w.Fatalf("%d objects, want two parts and an index", len(all))
	}
	put(all[0])
	put(all[2])
	says := func(text string) {
		w.Helper()
		harness.Wait(w.T, harness.Timeout, "it says: "+text, func() bool {
			return slices.ContainsFunc(w.get("parts").Status.Conditions, func(c fleet.Condition) bool { return strings.Contains(c.Message, text) })
		})
	}
	w.order("parts", spec{files: []string{"a.yaml", cm("a", "one"), "noise.txt", string(noise)}})
	says("part 2 of 2: the manager does not have content")
	wrong := all[1].DeepCopy()
	wrong.Content, wrong.SHA256Sum = all[0].Content, ""
	put(wrong)
	says("content " + p.ID[:10])
	if w.data("parts", "a") != "" {
		w.Error("deployed what was not verified")
	}
	must(w.T, contents.Delete(w.Context(), kube.Key{Name: wrong.Name}, kube.Precondition{}))
	put(all[1])
	w.state("parts", fleet.Ready)
	if w.data("parts", "a") != "one" {
		w.Error("not deployed")
	}
}

// Refused credentials are a manager that is away: everything goes on from the
// agent's store, also after a restart, and catches up when it is back.
func agentAlone(w *agentWorld) {
	on := fleet.BundleDeploymentOptions{CorrectDrift: &fleet.CorrectDrift{Enabled: true}}
	w.order("alone", spec{files: []string{"a.yaml", cm("a", "one")}, options: on})
	w.state("alone", fleet.Ready)
	ctx := w.Context()
	must(w.T, w.client.RbacV1().RoleBindings(deployNS).Delete(ctx, "agent", metav1.DeleteOptions{}))
	must(w.T, w.client.RbacV1().RoleBindings(workspace).Delete(ctx, "c1", metav1.DeleteOptions{}))
	w.stop()
	w.start()
	w.edit("alone", "a", "edited")
	harness.Wait(w.T, harness.Timeout, "drift is corrected without a manager", func() bool { return w.data("alone", "a") == "one" })
	harness.Wait(w.T, harness.Timeout, "the agent knows that it is refused", func() bool {
		contact, err := kube.StoreOf[*corev1.ConfigMap](w.admin).Get(ctx, kube.Key{Namespace: agentNS, Name: "fleet-agent-contact"})
		must(w.T, err)
		return contact.Data["reached"] == "false" && contact.Data["refused"] == "true" && contact.Data["hint"] != ""
	})
	w.order("alone", spec{files: []string{"a.yaml", cm("a", "two")}, options: on})
	w.order("alone", spec{files: []string{"a.yaml", cm("a", "three")}, options: on})
	if w.data("first", "a") != "two" {
		w.Error("something was removed")
	}
	w.bind()
	binding := w.rebindCluster()
	_, err := w.client.RbacV1().RoleBindings(workspace).Create(ctx, binding, metav1.CreateOptions{})
	must(w.T, err)
	harness.Wait(w.T, harness.Timeout, "it catches up", func() bool { return w.data("alone", "a") == "three" })
	w.state("alone", fleet.Ready)
}
