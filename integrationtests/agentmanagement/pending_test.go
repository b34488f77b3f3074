package agentmanagement_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// tooManyPending asks with one token for more Clusters than may be without an agent
// that has checked in.
func tooManyPending(t *testing.T, g *managerProcess) {
	g.maxPending(1)
	few := g.token(fleet.NamespaceDefault, "few", 0)
	asking := g.with(few["token"].(string))
	first := g.register(few, "pending-1", "r", nil)
	if err := g.pretend(asking, "pending-2", "r", "few"); err != nil {
		t.Fatal(err)
	}
	until(t, "the token says why the second waits", func() bool {
		events, err := kubernetes.NewForConfigOrDie(g.cluster.REST()).EventsV1().Events(fleet.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "TooManyPending" && e.Regarding.Name == "few" && strings.Contains(e.Note, "registration.maxPending") {
				return true
			}
		}
		return false
	})
	if _, err := kube.StoreOf[*fleet.Cluster](g.admin).Get(t.Context(), kube.Key{Namespace: fleet.NamespaceDefault, Name: naming.RegisteredCluster("pending-2")}); !kube.IsGone(err) {
		t.Errorf("the second has a Cluster: %v", err)
	}
	body := fmt.Sprintf(`{"status":{"agent":{"lastSeen":%q}}}`, time.Now().UTC().Format(time.RFC3339))
	key := kube.Key{Namespace: fleet.NamespaceDefault, Name: first.data["clusterName"]}
	until(t, "the first checks in", func() bool {
		_, err := kube.StoreOf[*fleet.Cluster](first.client).PatchRaw(t.Context(), key, types.MergePatchType, []byte(body), "status")
		return err == nil
	})
	until(t, "the second gets in", func() bool { return g.fetches(asking, "pending-2", "r") == nil })
	g.maxPending(1000)
}

// maxPending starts the manager with another configuration.
func (g *managerProcess) maxPending(n int) {
	g.t.Helper()
	g.halt()
	key := kube.Key{Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapController}
	config, err := kube.StoreOf[*corev1.ConfigMap](g.admin).Get(g.t.Context(), key)
	if err != nil {
		g.t.Fatal(err)
	}
	was := config.Data[fleet.KeyConfig]
	begin := strings.Index(was, `"maxPending": `)
	if begin < 0 {
		g.t.Fatalf("the chart configures no maxPending: %s", was)
	}
	begin += len(`"maxPending": `)
	end := begin + strings.IndexAny(was[begin:], ",\n")
	changed := config.DeepCopy()
	changed.Data[fleet.KeyConfig] = was[:begin] + fmt.Sprint(n) + was[end:]
	if _, err := kube.StoreOf[*corev1.ConfigMap](g.admin).Patch(g.t.Context(), config, changed); err != nil {
		g.t.Fatal(err)
	}
	g.run()
}
