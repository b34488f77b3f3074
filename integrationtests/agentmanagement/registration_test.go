package agentmanagement_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// The whole life of a downstream cluster, as far as the manager's side of the
// registration decides it.
func TestRegistration(t *testing.T) {
	// A real one: the API server enforces the admission policy of requests.
	g := openManagerProcess(t, harness.Cluster(t, "management"), map[string]any{
		"apiServerURL": "https://fleet.example.com", "apiServerCA": "PEM", "bootstrap": map[string]any{"enabled": false},
		"agentCheckinInterval": "1s", // three of them is how long two credentials overlap
	})
	ctx := t.Context()
	values := g.token(fleet.NamespaceDefault, "import-all", 0)

	t.Run("ValuesFitTheAgentChart", func(t *testing.T) {
		if values["apiServerURL"] != "https://fleet.example.com" || values["apiServerCA"] != "PEM" ||
			values["systemRegistrationNamespace"] != fleet.NamespaceRegistration || values["internal"] != nil {
			t.Errorf("not the manager's settings: %v", slices.Sorted(maps.Keys(values)))
		}
	})

	one := g.register(values, "client-one", "r1", map[string]string{
		"env": "prod", "fleet.cattle.io/cluster": "other", "management.cattle.io/cluster-display-name": "other",
	})
	t.Run("AgentJoins", func(t *testing.T) {
		until(t, "the Cluster is processed", func() bool {
			return condition.IsTrue(g.clusterOf(one).Status.Conditions, fleet.ConditionProcessed)
		})
		c := g.clusterOf(one)
		if c.Name != naming.RegisteredCluster("client-one") || c.Labels["env"] != "prod" ||
			c.Labels[fleet.LabelCluster] != c.Name || c.Labels[fleet.LabelDisplayName] != "" {
			t.Errorf("want an automatic name and no reserved label of the agent, got %s %v", c.Name, c.Labels)
		}
		if mark, err := registration.ParseMark(c.Annotations[fleet.AnnotationManager]); err != nil || mark != g.install.Mark() {
			t.Errorf("want the manager's mark, got %v %v", mark, err)
		}
		if !slices.Contains(c.Finalizers, fleet.FinalizerCluster) {
			t.Errorf("not processed: %v", c.Finalizers)
		}
		until(t, "the agent reads its deployments", func() bool { return one.reads(ctx) == nil })
	})

	two := g.register(values, "client-two", "r2", nil)

	t.Run("DeletedNamespaceComesBack", func(t *testing.T) {
		ns := kube.Key{Name: one.namespace()}
		before, err := kube.StoreOf[*corev1.Namespace](g.admin).Get(ctx, ns)
		if err != nil {
			t.Fatal(err)
		}
		if err := kube.StoreOf[*corev1.Namespace](g.admin).Delete(ctx, ns, kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		until(t, "the namespace is made again", func() bool {
			now, err := kube.StoreOf[*corev1.Namespace](g.admin).Get(ctx, ns)
			return err == nil && now.UID != before.UID
		})
		until(t, "the same credential works again", func() bool { return one.reads(ctx) == nil })
		until(t, "the Cluster says so", func() bool {
			return condition.IsTrue(g.clusterOf(one).Status.Conditions, fleet.ConditionProcessed)
		})
	})

	t.Run("StatusDoesNotDecideTheNamespace", func(t *testing.T) {
		c := g.clusterOf(one)
		forged := c.DeepCopy()
		forged.Status.Namespace = two.namespace()
		if _, err := kube.StoreOf[*fleet.Cluster](one.client).PatchRaw(ctx, kube.KeyOf(c), "application/merge-patch+json",
			[]byte(fmt.Sprintf(`{"status":{"namespace":%q}}`, two.namespace())), "status"); err != nil {
			t.Fatalf("an agent may patch the status of its own Cluster: %v", err)
		}
		until(t, "the manager puts it right", func() bool { return g.clusterOf(one).Status.Namespace == one.namespace() })
		bindings, err := kube.StoreOf[*rbacv1.RoleBinding](g.admin).List(ctx, two.namespace(), "")
		if err != nil || len(bindings) != 1 {
			t.Errorf("want one RoleBinding in the other's namespace, got %d, %v", len(bindings), err)
		}
		list := kube.StoreOf[*fleet.BundleDeployment](one.client)
		if _, err := list.List(ctx, two.namespace(), ""); !kube.IsForbidden(err) {
			t.Errorf("the other cluster's namespace must be forbidden, got %v", err)
		}
	})

	t.Run("AskingAgainVoidsNothing", func(t *testing.T) {
		// An agent that dies after asking asks again with the same words.
		again := g.register(values, "client-one", "r1", nil)
		until(t, "the repeated request is dropped", func() bool { return len(g.requests(fleet.NamespaceDefault)) == 2 })
		if err := again.reads(ctx); err != nil || again.data["token"] != one.data["token"] {
			t.Errorf("want the credential of the first request, and that it works: %v", err)
		}
	})

	t.Run("SameClientSameCluster", func(t *testing.T) {
		again := g.register(values, "client-one", "r1-again", map[string]string{"env": "dev"})
		if c := g.clusterOf(again); c.Name != g.clusterOf(one).Name || c.Labels["env"] != "prod" {
			t.Errorf("want the same Cluster with its labels, got %s %v", c.Name, c.Labels)
		}
		if err := one.reads(ctx); err != nil {
			t.Errorf("the newer credential is not used yet: %v", err)
		}
		until(t, "the newer credential works", func() bool { return again.reads(ctx) == nil })
		until(t, "the older credential is void", func() bool { return kube.IsUnauthorized(one.reads(ctx)) })
		one = again
	})

	t.Run("DeletedClusterLosesItsRights", func(t *testing.T) {
		c := g.clusterOf(two)
		if err := kube.StoreOf[*fleet.Cluster](g.admin).Delete(ctx, kube.KeyOf(c), kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		until(t, "the credential is void", func() bool { return kube.IsUnauthorized(two.reads(ctx)) })
		until(t, "the namespace is gone", func() bool {
			_, err := kube.StoreOf[*corev1.Namespace](g.admin).Get(ctx, kube.Key{Name: two.namespace()})
			return kube.IsGone(err)
		})
		until(t, "its request is gone", func() bool {
			return !slices.ContainsFunc(g.requests(fleet.NamespaceDefault), func(r *fleet.ClusterRegistration) bool {
				return r.Spec.ClientID == "client-two"
			})
		})
		if err := one.reads(ctx); err != nil {
			t.Errorf("the other cluster goes on: %v", err)
		}
	})

	t.Run("FinalizersKeepNoCredential", func(t *testing.T) { finalizersKeepNoCredential(t, g, values) })

	t.Run("OtherGroupsToken", func(t *testing.T) { otherGroupsToken(t, g) })

	t.Run("HandoverWithoutAnnotations", func(t *testing.T) {
		// A Secret that was edited, restored, or made by another implementation.
		create(t, g.admin, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: fleet.NamespaceRegistration, Name: naming.RegistrationSecret("client-bare", "r"),
		}})
		bare := g.register(values, "client-bare", "r", nil)
		until(t, "the agent reads its deployments", func() bool { return bare.reads(ctx) == nil })
	})

	t.Run("AnnotationReservesNoNamespace", func(t *testing.T) {
		reserving := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: fleet.NamespaceDefault, Name: "reserving",
			Annotations: map[string]string{registration.AnnotationDeploymentNamespace: "cluster-of-another-team"},
		}}
		create(t, g.admin, reserving)
		until(t, "the Cluster has a namespace", func() bool {
			c, err := kube.StoreOf[*fleet.Cluster](g.admin).Get(ctx, kube.KeyOf(reserving))
			return err == nil && c.Status.Namespace == naming.ClusterNamespace(fleet.NamespaceDefault, "reserving")
		})
		if _, err := kube.StoreOf[*corev1.Namespace](g.admin).Get(ctx, kube.Key{Name: "cluster-of-another-team"}); !kube.IsGone(err) {
			t.Errorf("a namespace of the name that an annotation asks for: %v", err)
		}
	})

	t.Run("TooManyPending", func(t *testing.T) { tooManyPending(t, g) })

	t.Run("NothingLeftBehind", func(t *testing.T) {
		until(t, "one account for each request", func() bool {
			accounts, err := kube.StoreOf[*corev1.ServiceAccount](g.admin).List(ctx, fleet.NamespaceRegistration, fleet.LabelManaged+"=true")
			bindings, err2 := kube.StoreOf[*rbacv1.ClusterRoleBinding](g.admin).List(ctx, "", fleet.LabelManaged+"=true")
			return err == nil && err2 == nil && len(accounts) == len(g.requests("")) && len(bindings) == len(accounts)
		})
	})

	t.Run("CredentialIsHandedOverFor40Minutes", func(t *testing.T) {
		late := g.register(values, "client-late", "r3", nil)
		g.later(registration.CredentialLifetime + time.Minute)
		until(t, "the Secret and the right to read it are gone", func() bool {
			secrets, err := kube.StoreOf[*corev1.Secret](g.admin).List(ctx, fleet.NamespaceRegistration, fleet.LabelCluster+"="+late.data["clusterName"])
			roles, err2 := kube.StoreOf[*rbacv1.Role](g.admin).List(ctx, fleet.NamespaceRegistration, "")
			return err == nil && err2 == nil && len(roles) == 0 &&
				!slices.ContainsFunc(secrets, func(s *corev1.Secret) bool { return s.Type == fleet.SecretTypeAgentCredential })
		})
		until(t, "the credential goes on", func() bool { return late.reads(ctx) == nil })
		g.later(0)
	})

	t.Run("ExpiredTokenGoes", func(t *testing.T) {
		short := g.token(fleet.NamespaceDefault, "short", time.Hour)
		g.later(time.Hour + time.Minute)
		until(t, "the token and its account are gone", func() bool {
			_, err := kube.StoreOf[*fleet.ClusterRegistrationToken](g.admin).Get(ctx, kube.Key{Namespace: fleet.NamespaceDefault, Name: "short"})
			_, err2 := kube.StoreOf[*fleet.ClusterRegistration](g.with(short["token"].(string))).List(ctx, fleet.NamespaceDefault, "")
			return kube.IsGone(err) && kube.IsUnauthorized(err2)
		})
		g.later(0)
	})

	t.Run("TakenNamespaceIsRefused", func(t *testing.T) {
		// With all the marks that Fleet would put on it.
		squatted := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "squatted"}}
		create(t, g.admin, registration.NewNamespace(squatted, naming.ClusterNamespace(fleet.NamespaceDefault, "squatted"),
			registration.System{ManagerID: g.install.ID}))
		create(t, g.admin, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "squatted"}})
		until(t, "the Cluster is refused", func() bool {
			c, err := kube.StoreOf[*fleet.Cluster](g.admin).Get(ctx, kube.Key{Namespace: fleet.NamespaceDefault, Name: "squatted"})
			if err != nil {
				return false
			}
			p := condition.Find(c.Status.Conditions, fleet.ConditionProcessed)
			return p != nil && p.Reason == registration.ReasonNamespaceTaken && c.Status.Namespace == ""
		})
	})

	t.Run("AnotherManagersClusterIsLeftAlone", func(t *testing.T) {
		createNamespace(t, g.admin, "other-fleet")
		other := registration.Installation{ID: "other", Epoch: 1, ClusterUID: "x"}
		create(t, g.admin, other.ConfigMap("other-fleet"))
		// It is alive for as long as this takes.
		holder, renewed := "pod", metav1.NewMicroTime(time.Now().Add(time.Hour))
		create(t, g.admin, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "other-fleet", Name: agentmanagement.LeaseName},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed},
		})
		theirs := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
			Namespace: fleet.NamespaceDefault, Name: "theirs",
			Annotations: map[string]string{fleet.AnnotationManager: other.Mark().String()},
		}}
		create(t, g.admin, theirs)
		g.restsFor(2 * time.Second)
		clusters := kube.StoreOf[*fleet.Cluster](g.admin)
		c, err := clusters.Get(ctx, kube.KeyOf(theirs))
		if err != nil || len(c.Finalizers) > 0 || c.Status.Namespace != "" {
			t.Fatalf("a living manager's Cluster was touched: %v %v", c, err)
		}
		leases := kube.StoreOf[*coordinationv1.Lease](g.admin)
		if err := leases.Delete(ctx, kube.Key{Namespace: "other-fleet", Name: agentmanagement.LeaseName}, kube.Precondition{}); err != nil {
			t.Fatal(err)
		}
		if _, err := clusters.PatchRaw(ctx, kube.KeyOf(theirs), "application/merge-patch+json", []byte(`{"metadata":{"labels":{"wake":"up"}}}`)); err != nil {
			t.Fatal(err)
		}
		until(t, "the Cluster of a dead manager is taken over", func() bool {
			c, err := clusters.Get(ctx, kube.KeyOf(theirs))
			return err == nil && c.Annotations[fleet.AnnotationManager] == g.install.Mark().String() && c.Status.Namespace != ""
		})
	})

	t.Run("SecretsOfTheReferenceAreAdopted", func(t *testing.T) { adoptedSecrets(t, g) })

	t.Run("AtRestNothingIsWritten", func(t *testing.T) {
		g.restsFor(4 * time.Second)
		g.halt()
		before := len(g.writes())
		g.run()
		g.restsFor(4 * time.Second)
		if after := g.writes(); len(after) != before {
			t.Errorf("a new start wrote: %v", after[before:])
		}
	})
}
