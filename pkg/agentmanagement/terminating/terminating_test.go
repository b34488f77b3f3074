package terminating

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// metadata answers with the metadata of a workspace, of the kind of Clusters and of the
// workspace's Bundles; what is nil is not there.
type metadata struct {
	workspace, kind *cache.Meta
	bundles         []cache.Meta
}

func (m metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var out any
	switch one := map[string]*cache.Meta{
		"/api/v1/namespaces/ws": m.workspace,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clusters.fleet.cattle.io": m.kind,
	}[r.URL.Path]; {
	case r.URL.Path == "/apis/fleet.cattle.io/v1alpha1/namespaces/ws/bundles":
		out = metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}, Items: m.bundles}
	case one != nil:
		one.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}
		out = one
	default:
		w.WriteHeader(http.StatusNotFound)
		out = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	}
	_ = json.NewEncoder(w).Encode(out)
}

// A Cluster that goes with its workspace, and the credential of its agent, stay while
// Bundles wait to be decided about; one that a person deletes goes.
func TestClusterWaits(t *testing.T) {
	stands := func() *cache.Meta { return &cache.Meta{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "x"}} }
	now := metav1.Now()
	ends := func() *cache.Meta { m := stands(); m.DeletionTimestamp = &now; return m }
	live := cache.Meta{ObjectMeta: metav1.ObjectMeta{Name: "b", Finalizers: []string{fleet.FinalizerBundle}}}
	deleted, bare := live, live
	deleted.DeletionTimestamp, bare.Finalizers = &now, nil
	for name, c := range map[string]struct {
		why               string
		server            metadata
		cluster, standing bool // the Cluster waits, and so does the credential
	}{
		"ByHand":           {"a person has deleted the Cluster", metadata{stands(), stands(), []cache.Meta{live, deleted}}, false, false},
		"Namespace":        {"its Bundles are about to be deleted as well", metadata{ends(), stands(), []cache.Meta{live}}, true, true},
		"NamespaceDecided": {"nothing is left to be decided", metadata{ends(), stands(), []cache.Meta{bare}}, false, false},
		"NamespaceGone":    {"the same", metadata{nil, stands(), nil}, false, false},
		"Kind":             {"Bundles stay without it", metadata{stands(), ends(), []cache.Meta{live}}, false, false},
		"KindAndBundles":   {"they are deleted, too", metadata{stands(), ends(), []cache.Meta{deleted}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.server)
			defer server.Close()
			client, err := kube.Connect(kube.Config{REST: &rest.Config{Host: server.URL}})
			if err != nil {
				t.Fatal(err)
			}
			waits := New(client, time.Now)
			got, err := waits.ClusterMustStay(t.Context(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "c"}})
			if err != nil || got != c.cluster {
				t.Errorf("%s: got %v, %v", c.why, got, err)
			}
			got, err = New(client, time.Now).HasPendingBundles(t.Context(), "ws")
			if err != nil || got != c.standing {
				t.Errorf("%s: the credential: got %v, %v", c.why, got, err)
			}
		})
	}
}
