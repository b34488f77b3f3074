package clusterimport

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// A Cluster was deleted and created again during its import: the import is not recorded on
// the new one, whose agent has to be installed with a token of its own. A Cluster that has
// only changed has the record.
func TestRecordSparesTheSuccessor(t *testing.T) {
	for name, again := range map[string]bool{"Changed": false, "CreatedAgain": true} {
		t.Run(name, func(t *testing.T) {
			ctx, key := t.Context(), kube.Key{Namespace: "default", Name: "c"}
			clusters := kube.StoreOf[*fleet.Cluster](kubetest.New(t).Connect("test"))
			create := func() *fleet.Cluster {
				c, err := clusters.Create(ctx, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}})
				if err != nil {
					t.Fatal(err)
				}
				return c
			}
			old := create()
			if again {
				if err := clusters.Delete(ctx, key, kube.Precondition{}); err != nil {
					t.Fatal(err)
				}
				create()
			} else {
				changed := old.DeepCopy()
				changed.Labels = map[string]string{"any": "label"}
				if _, err := clusters.Patch(ctx, old, changed); err != nil {
					t.Fatal(err)
				}
			}
			l := &reporter{now: time.Now, clusters: clusters, unseen: map[kube.Key]string{}}
			err := l.writeRecord(ctx, old, clusterimport.Record{Namespace: "agents"})
			if reconcile.IsRequeue(err) != again || err != nil && !again {
				t.Errorf("got %v", err)
			}
			live, err := clusters.Get(ctx, key)
			if err != nil || (clusterimport.RecordOf(live) == nil) != again {
				t.Errorf("want the record: %v; got %v, %v", !again, live.Annotations, err)
			}
		})
	}
}
