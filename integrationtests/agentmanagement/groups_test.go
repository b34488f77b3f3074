package agentmanagement_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	sigsyaml "sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// otherGroupsToken tries to get into a group with the token of another one: first
// where the API server checks which token a request is made with, then where it does
// not.
func otherGroupsToken(t *testing.T, g *managerProcess) {
	for _, group := range []string{"prod", "edge"} {
		create(t, g.admin, registration.NewGroup(fleet.NamespaceDefault, group))
	}
	prod, edge := g.groupToken("prod"), g.groupToken("edge")
	asking := g.with(edge["token"].(string))

	t.Run("WithThePolicy", func(t *testing.T) {
		var refused error
		until(t, "the API server refuses a request that names another token", func() bool {
			refused = g.pretend(asking, "attacker-1", "r1", "prod")
			return kube.IsForbidden(refused)
		})
		if !strings.Contains(refused.Error(), `registration token "prod"`) {
			t.Errorf("want what is wrong, got %v", refused)
		}
		if m := g.register(prod, "client-prod", "r", nil); g.clusterOf(m).Labels[fleet.LabelGroup] != "prod" {
			t.Errorf("the group's own token gives no group: %v", g.clusterOf(m).Labels)
		}
	})
	t.Run("WithoutThePolicy", func(t *testing.T) {
		bindings := kubernetes.NewForConfigOrDie(g.cluster.REST()).AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
		if err := bindings.Delete(t.Context(), fleet.NamespaceSystem+"-registrations", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		until(t, "the API server checks no tokens", func() bool { return g.pretend(asking, "attacker-2", "r1", "prod") == nil })
		key := kube.Key{Namespace: fleet.NamespaceDefault, Name: naming.RegisteredCluster("attacker-2")}
		clusters := kube.StoreOf[*fleet.Cluster](g.admin)
		until(t, "the Cluster is in the group of the named token", func() bool {
			c, err := clusters.Get(t.Context(), key)
			return err == nil && c.Labels[fleet.LabelGroup] == "prod" && c.Status.Namespace != ""
		})
		// A request that is not granted outlives its Cluster and makes it again.
		until(t, "the first request is granted", func() bool { return g.granted(fleet.NamespaceDefault, "attacker-2", "r1") })
		if err := g.pretend(asking, "attacker-2", "r2", "edge"); err != nil {
			t.Fatal(err)
		}
		var waits *fleet.Condition
		until(t, "the second request waits for a person, or is answered", func() bool {
			c, err := clusters.Get(t.Context(), key)
			if err != nil {
				return false
			}
			waits = condition.Find(c.Status.Conditions, fleet.ConditionRegistrationWaiting)
			return waits != nil || g.fetches(asking, "attacker-2", "r2") == nil
		})
		if waits == nil || g.fetches(asking, "attacker-2", "r2") == nil {
			t.Error("a token of one group gets the credential of a cluster of another group")
		}
		if g.fetches(asking, "attacker-2", "r1") == nil {
			t.Error("a credential is handed over to a token that it was not made for")
		}
		c, err := clusters.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		deleteKept(t, g, c)
		until(t, "without that Cluster the token gives what it is for", func() bool {
			made, err := clusters.Get(t.Context(), key)
			return err == nil && made.UID != c.UID && made.Labels[fleet.LabelGroup] == "edge" && g.fetches(asking, "attacker-2", "r2") == nil
		})
	})
}

// groupToken makes a registration token that puts clusters into a group of its name.
func (g *managerProcess) groupToken(group string) map[string]any {
	g.t.Helper()
	return g.tokenOf(&fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{
		Namespace: fleet.NamespaceDefault, Name: group, Annotations: map[string]string{fleet.AnnotationTokenGroup: group},
	}})
}

// tokenOf makes a registration token and returns the values of its Secret.
func (g *managerProcess) tokenOf(t *fleet.ClusterRegistrationToken) map[string]any {
	g.t.Helper()
	create(g.t, g.admin, t)
	var values map[string]any
	until(g.t, "the token's values", func() bool {
		made, err := kube.StoreOf[*fleet.ClusterRegistrationToken](g.admin).Get(g.t.Context(), kube.KeyOf(t))
		if err != nil || made.Status.SecretName == "" {
			return false
		}
		s, err := kube.StoreOf[*corev1.Secret](g.admin).Get(g.t.Context(), kube.Key{Namespace: t.Namespace, Name: made.Status.SecretName})
		return err == nil && sigsyaml.Unmarshal(s.Data[fleet.KeyValues], &values) == nil
	})
	return values
}

// pretend makes a request that names a token, with another one's credential or its own.
func (g *managerProcess) pretend(as *kube.Client, clientID, random, token string) error {
	_, err := kube.StoreOf[*fleet.ClusterRegistration](as).Create(g.t.Context(), &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "request-", Namespace: fleet.NamespaceDefault, Labels: map[string]string{fleet.LabelRegistrationToken: token},
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: clientID, ClientRandom: random},
	})
	return err
}

// fetches reads the credential that answers a request.
func (g *managerProcess) fetches(as *kube.Client, clientID, random string) error {
	_, err := kube.StoreOf[*corev1.Secret](as).Get(g.t.Context(),
		kube.Key{Namespace: fleet.NamespaceRegistration, Name: naming.RegistrationSecret(clientID, random)})
	return err
}
