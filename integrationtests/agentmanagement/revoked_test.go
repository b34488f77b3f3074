package agentmanagement_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// finalizersKeepNoCredential deletes a request and a Cluster that bear finalizers
// which no controller removes: the credential is void all the same.
func finalizersKeepNoCredential(t *testing.T, g *managerProcess, values map[string]any) {
	t.Run("OfTheRequest", func(t *testing.T) {
		m := g.register(values, "client-held", "r", nil, "example.com/x")
		r := g.requestOf(m, "client-held")
		deleteKept(t, g, r)
		g.void(m)
		again := g.register(values, "client-held", "r-again", nil)
		until(t, "a new request gets a credential that works", func() bool { return again.reads(t.Context()) == nil })
		release(t, g, r)
		if err := again.reads(t.Context()); err != nil {
			t.Errorf("the end of the former request ends the later credential: %v", err)
		}
		deleteKept(t, g, g.clusterOf(again))
	})
	t.Run("OfTheRequestOfADeletedCluster", func(t *testing.T) {
		m := g.register(values, "client-stays", "r", nil, "example.com/x")
		r := g.requestOf(m, "client-stays")
		deleteKept(t, g, g.clusterOf(m))
		g.void(m)
		release(t, g, r)
	})
	t.Run("OfTheCluster", func(t *testing.T) {
		m := g.register(values, "client-kept", "r", nil)
		c := g.clusterOf(m)
		change(t, g, c, func(c *fleet.Cluster) { c.Finalizers = append(c.Finalizers, "example.com/x") })
		deleteKept(t, g, c)
		g.void(m)
		release(t, g, c)
	})
}

// void waits until a member's credential is unknown to the API server and nothing of
// what it was granted is left.
func (g *managerProcess) void(m member) {
	g.t.Helper()
	until(g.t, "the credential is void", func() bool {
		_, err := kube.StoreOf[*fleet.Content](m.client).Get(g.t.Context(), kube.Key{Name: "none"})
		return kube.IsUnauthorized(m.reads(g.t.Context())) && kube.IsUnauthorized(err)
	})
	until(g.t, "account and bindings are gone", func() bool {
		selector := fleet.LabelCluster + "=" + m.data["clusterName"]
		accounts, err := kube.StoreOf[*corev1.ServiceAccount](g.admin).List(g.t.Context(), fleet.NamespaceRegistration, selector)
		bindings, err2 := kube.StoreOf[*rbacv1.ClusterRoleBinding](g.admin).List(g.t.Context(), "", selector)
		return err == nil && err2 == nil && len(accounts)+len(bindings) == 0
	})
}

// requestOf is the request of a client.
func (g *managerProcess) requestOf(m member, clientID string) *fleet.ClusterRegistration {
	g.t.Helper()
	all := g.requests(m.data["clusterNamespace"])
	i := slices.IndexFunc(all, func(r *fleet.ClusterRegistration) bool { return r.Spec.ClientID == clientID })
	if i < 0 {
		g.t.Fatalf("no request of %s", clientID)
	}
	return all[i]
}

// deleteKept deletes an object as administrator; a finalizer may keep it.
func deleteKept[P kube.Object](t *testing.T, g *managerProcess, o P) {
	t.Helper()
	if err := kube.StoreOf[P](g.admin).Delete(t.Context(), kube.KeyOf(o), kube.Precondition{UID: o.GetUID()}); err != nil {
		t.Fatal(err)
	}
}

// release takes the finalizers off an object, and waits until it is gone.
func release[P kube.Object](t *testing.T, g *managerProcess, o P) {
	t.Helper()
	change(t, g, o, func(o P) { o.SetFinalizers(nil) })
	until(t, "the object is gone", func() bool {
		_, err := kube.StoreOf[P](g.admin).Get(t.Context(), kube.KeyOf(o))
		return kube.IsGone(err)
	})
}

func change[P kube.Object](t *testing.T, g *managerProcess, o P, f func(P)) {
	t.Helper()
	harness.Revise(t, g.admin, kube.KeyOf(o), f)
}
