package agentmanagement

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Whatever request of the import fails, and after whatever write the manager ends, a
// cluster gets its agent, which is given a token that is there.
func TestImportOfOneCluster(t *testing.T) {
	var down *kubetest.Server // the cluster that is imported
	cfg := Config{
		Namespace: fleet.NamespaceSystem, Installation: registration.Installation{ID: "manager", ClusterUID: "upstream"},
		Settings: registration.Settings{
			AgentImage: "fleet-agent:v1", APIServerURL: rightURL, AgentTLSMode: registration.TLSStrict, Reclaim: registration.ReclaimAllow, AgentsUnmanaged: true,
		},
	}
	looptest.Run(t, looptest.Loop{
		Of: "imports", Settles: 2 * time.Minute, Rests: 30 * time.Second, // later it is said that the agent has not registered
		Start: func(c *kube.Client) []kube.Runner {
			log := logrus.New()
			log.SetOutput(io.Discard)
			return compose(cfg, c, logrus.NewEntry(log), down).Runnables()
		},
		Given: func(w *looptest.World) {
			down = kubetest.New(w.T)
			w.Server.MakeNamespace(importWorkspace)
			w.Server.MakeNamespace(fleet.NamespaceSystem)
		},
		When: func(w *looptest.World) {
			looptest.Make(w, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: importWorkspace, Name: "kubeconfig"},
				Data:       map[string][]byte{clusterimport.KeyKubeconfig: kubeconfigOf("site")},
			})
			looptest.Make(w, &fleet.Cluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: importWorkspace, Name: "site"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "kubeconfig"},
			})
		},
		Then: func(w *looptest.World) {
			c := looptest.Read[*fleet.Cluster](w, importWorkspace, "site")
			if !condition.IsTrue(c.Status.Conditions, fleet.ConditionImported) || clusterimport.RecordOf(c) == nil {
				w.Fatalf("want it imported, got %v, %v", c.Status.Conditions, c.Annotations)
			}
			below, key := down.Connect("user"), kube.Key{Namespace: fleet.NamespaceSystem, Name: fleet.SecretAgent}
			if _, err := kube.StoreOf[*appsv1.Deployment](below).Get(w.Context(), key); err != nil {
				w.Error(err)
			}
			given, err := kube.StoreOf[*corev1.Secret](below).Get(w.Context(), kube.Key{Namespace: key.Namespace, Name: fleet.SecretAgentBootstrap})
			w.Must(err)
			values, err := registration.ReadTokenSecret(looptest.Read[*corev1.Secret](w, importWorkspace, naming.ImportToken("site")))
			if has := registration.ReadBootstrapping(given.Data); err != nil || has.Token != values.Token || has.APIServerURL != rightURL {
				w.Errorf("want the agent to have the token that is there, got %+v, %v", has, err)
			}
		},
	})
}

// kubeconfigOf leads to a cluster.
func kubeconfigOf(name string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","current-context":"m",
"clusters":[{"name":"m","cluster":{"server":"https://%s.example"}}],
"users":[{"name":"m","user":{"token":"secret"}}],"contexts":[{"name":"m","context":{"cluster":"m","user":"m"}}]}`, name)
}
