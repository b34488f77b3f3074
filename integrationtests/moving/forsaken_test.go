package moving

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
	"github.com/fleetworkspace/fleet/pkg/workspace"
)

// TestForsaken reports what becomes of management Clusters whose provisioning Clusters
// are deleted, where Fleet is in Rancher's place.
func TestForsaken(t *testing.T) {
	t.Parallel()
	hub := harness.NewHub(t, harness.Memory(t, "alone"))
	people := hub.Cluster.REST()
	people.UserAgent = harness.TestAgent
	w := &world{TB: t, hub: hub, rancher: rancher.New(t, hub), objects: dynamic.NewForConfigOrDie(people)} // Rancher does not run
	h := &manager{hub: hub}
	h.run(t)
	w.space("a")
	w.space("b")
	t.Run("19_deleted_after_a_move", func(t *testing.T) { deletedAfterMove(w.in(t)) })
	t.Run("19_old_half", func(t *testing.T) { oldHalf(w.in(t)) })
	t.Run("06_kinds_of_an_older_chart", func(t *testing.T) { olderKinds(w.in(t)) })
	t.Run("19_deleted_while_nobody_looked", func(t *testing.T) { deletedUnseen(w.in(t), h) })
}

// A manager is workspaces at work, with a clock of its own.
type manager struct {
	hub   *harness.Hub
	ahead atomic.Int64
	stop  func()
}

func (h *manager) run(t *testing.T) {
	t.Helper()
	const process = "fleet-workspace/test"
	config := h.hub.Cluster.REST()
	client, err := kube.Connect(kube.Config{REST: config, UserAgent: process, FieldManager: "fleet-workspace"})
	if err != nil {
		t.Fatal(err)
	}
	log := harness.Logger()
	log.SetLevel(logrus.DebugLevel)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	manager := workspace.New(workspace.Config{
		Mode: plan.Standalone, Look: 50 * time.Millisecond,
		Fail: func(loop string, key kube.Key, err error) { log.Warnf("%s %s: %v", loop, key, err) },
		Now:  func() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) },
	}, client, logrus.NewEntry(log))
	go func() { done <- kube.Run(ctx, nil, manager.Runnables()...) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
	t.Cleanup(h.stop)
}

// provision makes a cluster of Rancher's that came first in a workspace, with the mark
// that Rancher leaves on what it makes of it. Its kubeconfig is there.
func (w *world) provision(namespace, name, id string, finalizers string) {
	w.Helper()
	w.put(rancher.Clusters, "", id, `{"spec":{"displayName":"`+name+`","fleetWorkspaceName":"`+namespace+`"},"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Connected","status":"True"}]}}`)
	w.patch(rancher.Clusters, "", id, `{"metadata":{"annotations":{"objectset.rio.cattle.io/id":"cluster-create",
		"objectset.rio.cattle.io/owner-gvk":"provisioning.cattle.io/v1, Kind=Cluster","objectset.rio.cattle.io/owner-name":"`+name+`","objectset.rio.cattle.io/owner-namespace":"`+namespace+`"}}}`)
	w.put(rancher.ProvClusters, namespace, name, `{"spec":{"rkeConfig":{}}}`)
	w.patch(rancher.ProvClusters, namespace, name, `{"metadata":{"finalizers":`+finalizers+`}}`)
	w.patch(rancher.ProvClusters, namespace, name, `{"status":{"clusterName":"`+id+`","clientSecretName":"`+name+`-kubeconfig"}}`, "status")
	w.until(name+" is mapped", func() bool { return w.cluster(namespace, name) != nil })
}

func (w *world) deleteProvisioning(namespace, name string) {
	w.Helper()
	w.must(w.objects.Resource(rancher.ProvClusters).Namespace(namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// A cluster that has moved is deleted: nothing of it is left, though its provisioning
// Cluster was not in its workspace.
func deletedAfterMove(w *world) {
	w.provision("a", "gone", "c-m-abcd0019", `["test/rancher"]`)
	w.provision("a", "stays", "c-m-abcd0119", `["test/rancher"]`)
	w.patch(rancher.Clusters, "", "c-m-abcd0019", `{"spec":{"fleetWorkspaceName":"b"}}`)
	w.until("it has moved", func() bool { return w.cluster("b", "gone") != nil && w.cluster("a", "gone") == nil })
	w.deleteProvisioning("a", "gone")
	w.until("its Fleet Cluster goes", func() bool { return w.cluster("b", "gone") == nil })
	if !w.there(rancher.Clusters, "", "c-m-abcd0019") {
		w.Error("the management Cluster went while a finalizer still held the provisioning Cluster")
	}
	w.patch(rancher.ProvClusters, "a", "gone", `{"metadata":{"finalizers":null}}`)
	w.until("its management Cluster goes", func() bool { return !w.there(rancher.Clusters, "", "c-m-abcd0019") })
	if !w.there(rancher.Clusters, "", "c-m-abcd0119") || w.cluster("a", "stays") == nil {
		w.Error("another cluster has gone with it")
	}
}

// The old half of an imported cluster that moves goes; its management Cluster, which
// came first, does not.
func oldHalf(w *world) {
	w.put(rancher.Clusters, "", "c-19old", `{"spec":{"displayName":"old","fleetWorkspaceName":"a"},"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Connected","status":"True"}]}}`)
	kubeconfig := func(namespace string) {
		w.until("its provisioning Cluster in "+namespace, func() bool { return w.there(rancher.ProvClusters, namespace, "c-19old") })
		w.patch(rancher.ProvClusters, namespace, "c-19old", `{"status":{"clusterName":"c-19old","clientSecretName":"c-19old-kubeconfig"}}`, "status")
		w.until("its Fleet Cluster in "+namespace, func() bool { return w.cluster(namespace, "c-19old") != nil })
	}
	kubeconfig("a")
	w.patch(rancher.Clusters, "", "c-19old", `{"spec":{"fleetWorkspaceName":"b"}}`)
	kubeconfig("b")
	w.until("the old half goes", func() bool {
		return !w.there(rancher.ProvClusters, "a", "c-19old") && w.cluster("a", "c-19old") == nil
	})
	if !w.there(rancher.Clusters, "", "c-19old") || w.cluster("b", "c-19old") == nil {
		w.Error("the cluster has gone with its old half")
	}
}

// A provisioning Cluster is gone, and the manager has not seen who deleted it: it may
// be about to be restored. Its management Cluster stays for ten minutes.
func deletedUnseen(w *world, h *manager) {
	w.provision("a", "unseen", "c-m-abcd0219", `[]`)
	w.provision("a", "restored", "c-m-abcd0319", `[]`)
	h.stop()
	w.deleteProvisioning("a", "unseen")
	w.deleteProvisioning("a", "restored")
	t, _ := w.TB.(*testing.T)
	h.run(t)
	w.until("their Fleet Clusters go", func() bool { return w.cluster("a", "unseen") == nil && w.cluster("a", "restored") == nil })
	w.provision2("a", "restored", "c-m-abcd0319")
	if !w.there(rancher.Clusters, "", "c-m-abcd0219") {
		w.Error("a management Cluster went at once")
	}
	w.until("the one goes", func() bool { // whenever the manager began to miss it
		h.ahead.Add(int64(plan.ForsakenTimeout))
		wake := fmt.Sprintf(`{"metadata":{"annotations":{"wake":"%d"}}}`, h.ahead.Load())
		w.patch(rancher.Clusters, "", "c-m-abcd0319", wake)
		_, err := w.objects.Resource(rancher.Clusters).Patch(w.Context(), "c-m-abcd0219", types.MergePatchType, []byte(wake), metav1.PatchOptions{})
		return apierrors.IsNotFound(err)
	})
	if !w.there(rancher.Clusters, "", "c-m-abcd0319") {
		w.Error("one that was restored has gone")
	}
}

// provision2 makes a provisioning Cluster again.
func (w *world) provision2(namespace, name, id string) {
	w.Helper()
	w.put(rancher.ProvClusters, namespace, name, `{"spec":{"rkeConfig":{}}}`)
	w.patch(rancher.ProvClusters, namespace, name, `{"status":{"clusterName":"`+id+`","clientSecretName":"`+name+`-kubeconfig"}}`, "status")
	w.until(name+" is mapped again", func() bool { return w.cluster(namespace, name) != nil })
}
