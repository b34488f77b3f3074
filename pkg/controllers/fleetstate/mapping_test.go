package fleetstate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// TestOtherNamespaces: what Bundles of several namespaces need to know of each
// other.
func TestOtherNamespaces(t *testing.T) {
	tab := New("me", time.Minute, func() time.Time { return time.Unix(1, 0) })
	for _, key := range []kube.Key{{Namespace: "b", Name: "web"}, {Namespace: "a", Name: "web"}, {Namespace: "a", Name: "db"}} {
		tab.SetBundle(&fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, ResourceVersion: "1"}})
	}
	want := []kube.Key{{Namespace: "a", Name: "web"}, {Namespace: "b", Name: "web"}}
	if diff := cmp.Diff(want, tab.BundlesNamed("web")); diff != "" {
		t.Error(diff)
	}
	if _, ok := tab.Candidate(kube.Key{Namespace: "a", Name: "c1"}); ok {
		t.Error("there is no cluster yet")
	}
	tab.SetCluster(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c1", ResourceVersion: "1"}})
	if c, ok := tab.Candidate(kube.Key{Namespace: "a", Name: "c1"}); !ok || c.Place.Name != "c1" {
		t.Errorf("got %+v", c)
	}
	before := tab.Moves()
	if tab.BumpMoves(); tab.Moves() == before {
		t.Error("a rest of work that was decided before would be carried out")
	}
}
