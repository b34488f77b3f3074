package kube_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Nothing that Fleet knows a part of is ever replaced: neither an object nor its
// status, and not by mistake either. Each of Rancher's kinds must stand in this
// table.
func TestNoUpdateOfRanchersKinds(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Error(w, "no", http.StatusTeapot)
	}))
	defer server.Close()
	c, err := kube.Connect(kube.Config{REST: &rest.Config{Host: server.URL}, UserAgent: "test", FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	update(t, c, tried, &management.Cluster{})
	update(t, c, tried, &management.FleetWorkspace{})
	update(t, c, tried, &management.Setting{})
	update(t, c, tried, &management.Feature{})
	update(t, c, tried, &management.GlobalRole{})
	update(t, c, tried, &management.GlobalRoleBinding{})
	update(t, c, tried, &provisioning.Cluster{})
	if asked > 0 {
		t.Errorf("%d requests were sent", asked)
	}
	for kind := range c.Scheme().AllKnownTypes() {
		known := kind.Group == management.Group || kind.Group == provisioning.Group
		if known && !strings.HasSuffix(kind.Kind, "List") && isKind(c, kind.Kind, kind.Group) && !tried[kind.Group+"/"+kind.Kind] {
			t.Errorf("%s is missing here", kind)
		}
	}
	ours := &fleet.Cluster{}
	ours.Namespace, ours.Name = "fleet-default", "c1"
	if _, err := kube.StoreOf[*fleet.Cluster](c).Update(t.Context(), ours); err == nil || asked == 0 {
		t.Errorf("kinds of ours are updated: %v", err)
	}
}

// isKind reports whether kind is a kind of the API and not a type that every
// group has, such as the options of requests.
func isKind(c *kube.Client, kind, group string) bool {
	for known := range c.Scheme().AllKnownTypes() {
		if known.Group == group && known.Kind == kind+"List" {
			return true
		}
	}
	return false
}

func update[P kube.Object](t *testing.T, c *kube.Client, tried map[string]bool, obj P) {
	t.Helper()
	kinds, _, err := c.Scheme().ObjectKinds(obj)
	if err != nil {
		t.Fatal(err)
	}
	tried[kinds[0].Group+"/"+kinds[0].Kind] = true
	obj.SetName("c1")
	store := kube.StoreOf[P](c)
	if _, err := store.Update(t.Context(), obj); err == nil || !strings.Contains(err.Error(), "patch it") {
		t.Errorf("%T: update: %v", obj, err)
	}
	if _, err := store.UpdateStatus(t.Context(), obj); err == nil || !strings.Contains(err.Error(), "patch it") {
		t.Errorf("%T: update of the status: %v", obj, err)
	}
}
