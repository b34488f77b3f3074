package takeover_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// TestClustersOfTheReference deploys with a manager of a shard and with one of a
// workspace to a Cluster that no manager of this project has marked. Where the Cluster's
// namespace names another Cluster, nothing is written, Bundle and GitRepo are not Ready, and
// fleet takeover check finds it.
func TestClustersOfTheReference(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, own := range map[string]scope.Scope{"shard": {Shard: "takeover"}, "workspace": {Workspaces: []string{"ws-workspace"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, ws, system := w.on(t), "ws-"+name, "system-"+name
			w.namespace(ws)
			w.namespace(system)
			w.joinOfReference(t, ws, "c1")
			w.manage(t, name, system, own)
			w.lone(ws, "app", "1")
			w.label(ws, "app", own.Shard)
			was := w.runs(ws, "app", 1, nil)
			w.repo(t, ws, "web", own.Shard)
			w.runs(ws, "web", 1, nil)
			w.until("the GitRepo is Ready", func() bool { return w.repoReadyText(ws, "web") == "True" })

			w.claim(naming.ClusterNamespace(ws, "c1"), "another")
			w.until("the Bundle says why nothing is written", func() bool { return strings.Contains(w.readyText(ws, "app"), "belongs to Cluster "+ws+"/another") })
			w.until("the GitRepo says it, too", func() bool { return strings.Contains(w.repoReadyText(ws, "web"), "belongs to Cluster "+ws+"/another") })
			w.lone(ws, "app", "2")
			w.until("the new version counts as not Ready", func() bool { return w.readyClusters(ws, "app") == "0/1" })
			w.until("the Cluster does not count it", func() bool { return w.readyOf(ws, "c1") != "1/1" })
			w.notReady(ws, "app", system)

			w.claim(naming.ClusterNamespace(ws, "c1"), "c1")
			w.runs(ws, "app", 1, was)
			w.until("the Bundle is Ready", func() bool { return w.readyClusters(ws, "app") == "1/1" })
		})
	}
}

// notReady checks that fleet status, fleet wait and fleet takeover check agree that a Bundle
// is not Ready, and give the same reason. system is the namespace of its manager.
func (w *world) notReady(workspace, name, system string) {
	w.Helper()
	in := " -n " + workspace + " --system-namespace " + system
	status := w.Types(w.hub, "fleet status"+in)
	if !strings.Contains(status.Out, workspace+"/another") || strings.Contains(status.Out, "1/1") {
		w.Errorf("fleet status does not say why %s is not Ready:\n%s", name, status.Out)
	}
	check := w.Tries(w.hub, "fleet takeover check -o wide"+in)
	if check.Code != 2 || !strings.Contains(check.Out, "could not be deployed: ") || !strings.Contains(check.Out, workspace+"/another") {
		w.Errorf("fleet takeover check ends with %d, want 2 and the reason:\n%s%s", check.Code, check.Out, check.Notes)
	}
	wait := w.Tries(w.hub, "fleet wait bundle/"+name+" --timeout 2s"+in)
	if wait.Code != 3 || !strings.Contains(wait.Out+wait.Notes, workspace+"/another") {
		w.Errorf("fleet wait ends with %d, want 3 and the reason:\n%s%s", wait.Code, wait.Out, wait.Notes)
	}
}

// label gives a Bundle to a shard; an empty one is the default manager's.
func (w *world) label(workspace, name, shard string) {
	w.Helper()
	if shard == "" {
		return
	}
	bundles := kube.StoreOf[*fleet.Bundle](w.admin)
	b, err := bundles.Get(w.Context(), kube.Key{Namespace: workspace, Name: name})
	w.must(err)
	changed := b.DeepCopy()
	changed.Labels[fleet.LabelShardRef] = shard
	_, err = bundles.Patch(w.Context(), b, changed)
	w.must(err)
}

// claim lets a namespace name a Cluster of the same workspace as its own.
func (w *world) claim(namespace, cluster string) {
	w.Helper()
	harness.CreateOrPatch(w, w.admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(ns *corev1.Namespace) {
		ns.Annotations[fleet.AnnotationCluster] = cluster
	})
}

func (w *world) bundle(workspace, name string) *fleet.Bundle {
	w.Helper()
	b, err := kube.StoreOf[*fleet.Bundle](w.admin).Get(w.Context(), kube.Key{Namespace: workspace, Name: name})
	w.must(err)
	return b
}

func (w *world) readyClusters(workspace, name string) string {
	return w.bundle(workspace, name).Status.Display.ReadyClusters
}

func (w *world) readyText(workspace, name string) string {
	if c := condition.Find(w.bundle(workspace, name).Status.Conditions, fleet.ConditionReady); c != nil {
		return c.Message
	}
	return ""
}

// repoReadyText is the status of the condition Ready of a GitRepo, and its message.
func (w *world) repoReadyText(workspace, name string) string {
	w.Helper()
	r, err := kube.StoreOf[*fleet.GitRepo](w.admin).Get(w.Context(), kube.Key{Namespace: workspace, Name: name})
	w.must(err)
	if c := condition.Find(r.Status.Conditions, fleet.ConditionReady); c != nil {
		return strings.TrimSpace(string(c.Status) + " " + c.Message)
	}
	return ""
}
