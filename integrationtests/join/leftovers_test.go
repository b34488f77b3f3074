package join

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/agentrollout"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// as is a client with a bearer token.
func (w *world) as(token string) *kube.Client {
	w.Helper()
	cfg := rest.AnonymousClientConfig(w.hub.Cluster.REST())
	cfg.BearerToken, cfg.QPS = token, -1
	c, err := kube.Connect(kube.Config{REST: cfg, UserAgent: harness.TestAgent, FieldManager: fleet.FieldManagerAgent})
	w.must(err)
	return c
}

// crowd is how many clusters come and go in the usual run, and in the long one.
func crowd() int {
	if os.Getenv("FLEET_TEST_SOAK") != "" {
		return 1000
	}
	return 40
}

// However many clusters have come, come again and gone, nothing of them is left.
func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.token(fleet.NamespaceDefault, "crowd", 24*time.Hour)
	w.visit(b, "first", "word")
	w.leave()
	w.until("the manager has made what it makes once", func() bool {
		_, ok := get[*corev1.ConfigMap](w, fleet.NamespaceSystem, agentrollout.ConfigMapName)
		return ok
	})
	before := w.objects()

	began := time.Now()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range crowd() {
		group.Go(func() error {
			id := fmt.Sprintf("client-%d", i)
			w.visit(b, id, "one word")
			if i%2 == 0 { // every other one registers again
				w.visit(b, id, "another word")
			}
			return nil
		})
	}
	w.must(group.Wait())
	joined := time.Since(began)
	began = time.Now()
	w.leave()
	var left []string
	deadline := time.Now().Add(harness.Timeout)
	for left = w.since(before); len(left) > 0 && time.Now().Before(deadline); left = w.since(before) {
		time.Sleep(500 * time.Millisecond) // how often it is looked
	}
	if len(left) > 0 {
		t.Errorf("%d clusters have left %d objects behind: %s", crowd(), len(left), strings.Join(left, "\n"))
	}
	t.Logf("%d clusters joined (half of them twice) in %s; nothing was left of them after %s", crowd(), joined.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
}

// visit does what an agent does to join, and uses its credential once.
func (w *world) visit(b registration.Bootstrapping, clientID, word string) {
	w.Helper()
	w.ask(b, clientID, word)
	asking := kube.StoreOf[*corev1.Secret](w.as(b.Token))
	key := kube.Key{Namespace: b.RegistrationNamespace, Name: naming.RegistrationSecret(clientID, word)}
	var token, namespace string
	w.within(2*time.Minute, "the credential of "+clientID, func() bool {
		s, err := asking.Get(w.Context(), key)
		if err == nil {
			token, namespace = string(s.Data["token"]), string(s.Data["deploymentNamespace"])
		}
		return err == nil
	})
	own := kube.StoreOf[*fleet.BundleDeployment](w.as(token))
	w.until(clientID+" reads its deployments", func() bool {
		_, err := own.List(w.Context(), namespace, "")
		return err == nil
	})
}

// leave deletes every Cluster.
func (w *world) leave() {
	w.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for _, c := range list[*fleet.Cluster](w, fleet.NamespaceDefault, "") {
		group.Go(func() error { remove(w, c); return nil })
	}
	w.must(group.Wait())
	w.within(10*time.Minute, "the namespaces of the clusters are gone", func() bool {
		return len(list[*corev1.Namespace](w, "", fleet.LabelManaged+"=true")) == 0 && len(w.requests("")) == 0
	})
}

// since is the objects there are now and were not before, in order.
func (w *world) since(before sets.Set[string]) []string {
	w.Helper()
	return sets.List(w.objects().Difference(before))
}

// objects is every object there is, of every kind but events and leases, which
// come and go by themselves.
func (w *world) objects() sets.Set[string] {
	w.Helper()
	cfg := w.hub.Cluster.REST()
	cfg.QPS = -1
	disco, err := discovery.NewDiscoveryClientForConfig(cfg)
	w.must(err)
	client, err := metadata.NewForConfig(cfg)
	w.must(err)
	_, groups, err := disco.ServerGroupsAndResources()
	w.must(err)
	out := sets.New[string]()
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		w.must(err)
		for _, r := range group.APIResources {
			if strings.Contains(r.Name, "/") || r.Name == "events" || r.Name == "leases" || !slices.Contains(r.Verbs, "list") {
				continue
			}
			found, err := client.Resource(version.WithResource(r.Name)).List(w.Context(), metav1.ListOptions{})
			w.must(err)
			for _, o := range found.Items {
				out.Insert(fmt.Sprintf("%s %s/%s", version.WithResource(r.Name), o.Namespace, o.Name))
			}
		}
	}
	return out
}
