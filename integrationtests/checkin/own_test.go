package checkin

import (
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// An agent whose Secret is deleted while it runs writes it again, says so, and finds
// its manager after a restart.
func credentialDeleted(_ *world, m *member) {
	m.join()
	before, ok := harness.Read[*corev1.Secret](m.TB, m.Down, m.Namespace, fleet.SecretAgent)
	if !ok {
		m.Fatal("the agent has no credential")
	}
	m.Must(kube.StoreOf[*corev1.Secret](m.Down.Admin).Delete(m.Context(), kube.KeyOf(before), kube.Precondition{}))
	m.says("CredentialWrittenAgain")
	after, _ := harness.Read[*corev1.Secret](m.TB, m.Down, m.Namespace, fleet.SecretAgent)
	if diff := cmp.Diff(before.Data, after.Data); diff != "" || after.UID == before.UID {
		m.Errorf("another Secret was written: %v", diff != "")
	}
	m.Restart()
	m.Until("the manager is reached after a restart", func() bool { return m.Contact()["reached"] == "true" })
	seen := m.cluster().Status.Agent.LastSeen
	m.Until("it checks in", func() bool { return m.cluster().Status.Agent.LastSeen.After(seen.Time) })
}

// An agent whose account is gone, as with its namespace, checks in on, and the
// Cluster says why it does nothing.
func accountDeleted(_ *world, m *member) {
	m.Account()
	m.join()
	m.Must(kube.StoreOf[*corev1.ServiceAccount](m.Down.Admin).Delete(m.Context(), kube.Key{Namespace: m.Namespace, Name: "fleet-agent"}, kube.Precondition{}))
	m.Until("the Cluster says that the agent may not work", func() bool {
		key := kube.Key{Namespace: m.Namespace, Name: fleet.SecretAgent} // what the agent does about it is refused
		_ = kube.StoreOf[*corev1.Secret](m.Down.Admin).Delete(m.Context(), key, kube.Precondition{})
		c := m.cluster()
		r := condition.Find(c.Status.Conditions, fleet.ConditionReady)
		return c.Status.Display.State == string(fleet.NotReady) && r != nil && r.Reason == fleet.ReasonAgentTrouble &&
			strings.Contains(r.Message, "may not read or write in its own cluster") && strings.Contains(r.Message, m.Namespace)
	})
	seen := m.cluster().Status.Agent.LastSeen
	m.Until("it checks in on", func() bool { return m.cluster().Status.Agent.LastSeen.After(seen.Time) })
}
