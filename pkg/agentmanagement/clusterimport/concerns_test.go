package clusterimport

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// The manager installs agents in Clusters with a kubeconfig, and in no other's, nor in one
// that is being deleted.
func TestConcerns(t *testing.T) {
	l := &Loop{cfg: Config{Installation: managertest.Installation}}
	l.cfg.Settings.Bootstrap.Namespace = fleet.NamespaceLocal
	now := metav1.Now()
	for name, c := range map[string]struct {
		change func(*fleet.Cluster)
		want   bool
	}{
		"Kubeconfig":     {func(*fleet.Cluster) {}, true},
		"None":           {func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "" }, false},
		"Deleted":        {func(c *fleet.Cluster) { c.DeletionTimestamp = &now }, false},
		"External":       {func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelClusterManagement: "another"} }, false},
		"Local":          {func(c *fleet.Cluster) { c.Namespace, c.Name = fleet.NamespaceLocal, fleet.ClusterLocal }, false},
		"OtherManager":   {func(c *fleet.Cluster) { mark(c, registration.Mark{ID: "another"}) }, false},
		"OfThisManager":  {func(c *fleet.Cluster) { mark(c, managertest.Installation.Mark()) }, true},
		"NoMarkYet":      {func(c *fleet.Cluster) { c.Annotations = nil }, true},
		"OtherNamespace": {func(c *fleet.Cluster) { c.Name = fleet.ClusterLocal }, true},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "kubeconfig"}}
			c.change(cluster)
			if got := l.installsAgentOf(cluster); got != c.want {
				t.Errorf("want %t, got %t", c.want, got)
			}
		})
	}
}

func mark(c *fleet.Cluster, m registration.Mark) {
	c.Annotations = map[string]string{fleet.AnnotationManager: m.String()}
}
