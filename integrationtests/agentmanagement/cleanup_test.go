package agentmanagement_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// Namespaces, deployments, Secrets and registrations without an owner are
// deleted after two sweeps. What has an owner, belongs to another manager, or
// may still get an owner, stays.
func TestCleanup(t *testing.T) {
	t.Parallel()
	g := openManagerProcess(t, harness.Memory(t, "management"), map[string]any{"bootstrap": map[string]any{"enabled": false}})
	ctx := t.Context()
	g.halt() // only the sweeps of this test
	of := func(name string) *fleet.Cluster {
		return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name}}
	}
	system := registration.System{Namespace: fleet.NamespaceSystem, ManagerID: g.install.ID}
	create(t, g.admin, of("alive"))
	for name, owner := range map[string]string{"ns-alive": "alive", "ns-gone": "gone", "ns-tombstone": "gone2"} {
		create(t, g.admin, registration.NewNamespace(of(owner), name, system))
	}
	create(t, g.admin, registration.NewNamespace(of("gone"), "ns-theirs", registration.System{Namespace: "other", ManagerID: "another"}))
	createNamespace(t, g.admin, "not-ours")
	create(t, g.admin, &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns-tombstone", Name: "app", Annotations: map[string]string{fleet.AnnotationWithdrawn: "order"},
	}})
	create(t, g.admin, &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns-alive", Name: "app"}})
	create(t, g.admin, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "app"}})
	secret := func(namespace, name, kind string, managed bool) {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretType(kind)}
		if managed {
			s.Labels = map[string]string{fleet.LabelManaged: "true"}
		}
		create(t, g.admin, s)
	}
	secret("ns-alive", "app", fleet.SecretTypeBundleDeployment, true)
	secret("ns-alive", "orphan", fleet.SecretTypeBundleDeployment, true)
	secret("ns-alive", "theirs", fleet.SecretTypeBundleDeployment, false)
	secret(fleet.NamespaceDefault, "app", fleet.SecretTypeBundleValues, true)
	secret(fleet.NamespaceDefault, "orphan", fleet.SecretTypeBundleValues, true)
	create(t, g.admin, &fleet.ClusterRegistration{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "abandoned"}})

	var now time.Time
	cfg := g.cfg
	cfg.Now = func() time.Time { return now }
	left := func() []string {
		var out []string
		for _, name := range []string{"ns-alive", "ns-gone", "ns-tombstone", "ns-theirs", "not-ours"} {
			n, err := kube.StoreOf[*corev1.Namespace](g.admin).Get(ctx, kube.Key{Name: name})
			if err == nil && n.DeletionTimestamp == nil {
				out = append(out, name)
			}
		}
		for _, key := range []kube.Key{
			{Namespace: "ns-alive", Name: "app"}, {Namespace: "ns-alive", Name: "orphan"}, {Namespace: "ns-alive", Name: "theirs"},
			{Namespace: fleet.NamespaceDefault, Name: "app"}, {Namespace: fleet.NamespaceDefault, Name: "orphan"},
		} {
			if _, err := kube.StoreOf[*corev1.Secret](g.admin).Get(ctx, key); err == nil {
				out = append(out, key.String())
			}
		}
		for _, r := range g.requests("") {
			out = append(out, r.Name)
		}
		return out
	}
	all := left()
	sweeper := func(of scope.Scope) func(after time.Duration) {
		now, cfg.Scope = time.Now(), of
		c := agentmanagement.NewCleanup(cfg, g.client, logrus.NewEntry(logrus.New()))
		return func(after time.Duration) {
			t.Helper()
			now = now.Add(after)
			if _, err := c.Sweep(ctx, kube.Key{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	elsewhere := sweeper(scope.Scope{Workspaces: []string{"elsewhere"}})
	for _, after := range []time.Duration{0, 11 * time.Minute, 11 * time.Minute, 2 * time.Hour, 11 * time.Minute, 25 * time.Hour} {
		elsewhere(after)
	}
	if diff := cmp.Diff(all, left()); diff != "" {
		t.Errorf("who has other workspaces leaves these alone\n-want +got\n%s", diff)
	}
	sweep := sweeper(scope.Scope{})
	sweep(0)
	sweep(11 * time.Minute)
	if diff := cmp.Diff(without(all, "ns-gone"), left()); diff != "" {
		t.Errorf("after two looks the namespace goes; Secrets are young at the first\n-want +got\n%s", diff)
	}
	sweep(11 * time.Minute)
	if diff := cmp.Diff(without(all, "ns-gone", "ns-alive/orphan", "fleet-default/orphan"), left()); diff != "" {
		t.Errorf("Secrets of values without an owner go\n-want +got\n%s", diff)
	}
	sweep(2 * time.Hour)
	sweep(11 * time.Minute)
	if diff := cmp.Diff(without(all, "ns-gone", "ns-alive/orphan", "fleet-default/orphan", "abandoned"), left()); diff != "" {
		t.Errorf("a request that was not granted goes\n-want +got\n%s", diff)
	}
	sweep(25 * time.Hour)
	if diff := cmp.Diff(without(all, "ns-gone", "ns-alive/orphan", "fleet-default/orphan", "abandoned", "ns-tombstone"), left()); diff != "" {
		t.Errorf("a namespace with an order without an answer goes at last\n-want +got\n%s", diff)
	}
}

func without(all []string, gone ...string) []string {
	var out []string
	for _, name := range all {
		keep := true
		for _, g := range gone {
			keep = keep && name != g
		}
		if keep {
			out = append(out, name)
		}
	}
	return out
}
