package pods

import (
	"context"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/pki"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// token makes a registration token and returns the values for the agent's chart that
// the manager gives out for it.
func (w *world) token(name string, ttl time.Duration) map[string]any {
	w.Helper()
	_, err := kube.StoreOf[*corev1.Namespace](w.local.client).Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet.NamespaceDefault}})
	if err != nil && !kube.IsExists(err) {
		w.Fatal(err)
	}
	_, err = kube.StoreOf[*fleet.ClusterRegistrationToken](w.local.client).Create(w.Context(), &fleet.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: name},
		Spec:       fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: ttl}},
	})
	w.must(err)
	values := map[string]any{}
	w.until("the values of token "+name, func(context.Context) string {
		s, gone := get[*corev1.Secret](w, w.local, fleet.NamespaceDefault, name)
		if gone != "" {
			return gone
		}
		if err := yaml.Unmarshal(s.Data[fleet.KeyValues], &values); err != nil || values["token"] == nil {
			return "not complete"
		}
		return ""
	})
	return values
}

// agentValues are the values of a token with what is the same for all.
func (w *world) agentValues(token map[string]any) map[string]any {
	values := map[string]any{"image": imageOf(before)}
	for key, value := range token {
		values[key] = value
	}
	values["agentTLSMode"] = "strict"
	values["labels"] = map[string]any{"region": "east"}
	values["clientID"] = eastID
	return values
}

// eastID is the client ID of the agent of east from the first install on: a running
// agent reacts to a new token within seconds, and Helm writes that before the other
// changes.
const eastID = "the-east"

// Tokens that cannot work: each says so in an Event where the agent is; where the
// manager ends one, it says so in an Event too.
func (w *world) badTokens() {
	foreign, err := pki.NewAuthority("stranger")
	w.must(err)
	wrongCA := w.agentValues(w.token("wrong-ca", time.Hour))
	wrongCA["apiServerCA"] = string(foreign.Cert)
	w.install(w.east, "fleet-agent", wrongCA)
	w.said(w.east, fleet.NamespaceSystem, "certificate", "apiServerCA", "does not vouch for")

	deleted := w.agentValues(w.token("deleted", time.Hour))
	w.must(kube.StoreOf[*fleet.ClusterRegistrationToken](w.local.client).Delete(w.Context(),
		kube.Key{Namespace: fleet.NamespaceDefault, Name: "deleted"}, kube.Precondition{}))
	w.refused("deleted")
	w.upgrade(w.east, "fleet-agent", deleted)
	w.said(w.east, fleet.NamespaceSystem, `"deleted"`, "expired or was removed", "fleet install agent-token")

	expired := w.agentValues(w.token("expired", time.Hour))
	change(w, w.local, fleet.NamespaceDefault, "expired", func(t *fleet.ClusterRegistrationToken) {
		t.Spec.TTL = &metav1.Duration{Duration: time.Second} // not before its values were read
	})
	w.refused("expired")
	w.upgrade(w.east, "fleet-agent", expired)
	w.said(w.east, fleet.NamespaceSystem, `"expired"`, "expired or was removed", "fleet install agent-token")
	w.said(w.local, fleet.NamespaceDefault, "has expired", "refused")
	if list, err := kube.StoreOf[*fleet.Cluster](w.local.client).List(w.Context(), fleet.NamespaceDefault, ""); err != nil || len(list) > 0 {
		w.Errorf("clusters that have come in with such tokens: %d, %v", len(list), err)
	}
}

// refused returns when nothing is left of a token.
func (w *world) refused(name string) {
	w.Helper()
	w.until("token "+name+" is gone", func(context.Context) string {
		if s, gone := get[*corev1.Secret](w, w.local, fleet.NamespaceDefault, name); gone == "" {
			return "its Secret is there: " + s.Name
		}
		return ""
	})
}

// said returns when an Event of a namespace holds all words.
func (w *world) said(s *site, namespace string, words ...string) {
	w.Helper()
	w.until("an Event on "+s.name+" says "+strings.Join(words, ", "), func(ctx context.Context) string {
		list, err := s.core.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=Warning"})
		if err != nil {
			return err.Error()
		}
		said := "nothing"
		for _, e := range list.Items {
			if e.Source.Component == "kubelet" || e.ReportingController == "kubelet" {
				continue
			}
			if said = e.Reason + ": " + e.Message; holds(said, words) {
				w.Logf("on %s it says: %s", s.name, said)
				return ""
			}
		}
		return said
	})
}

// east joins with a token that works. Its agent runs all the time. No pod of the
// manager's cluster can reach its API server.
func (w *world) joinByToken() {
	_, err := kube.StoreOf[*fleet.Cluster](w.local.client).Create(w.Context(), &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: w.east.name},
		Spec:       fleet.ClusterSpec{ClientID: eastID},
	})
	w.must(err)
	values := w.agentValues(w.token("east", time.Hour))
	began := time.Now()
	w.upgrade(w.east, "fleet-agent", values)
	w.seen(w.east.name, before)
	w.Logf("NUMBER token applied -> checked in: %s", w.since(began))
}

// seen returns when the agent of a downstream cluster has checked in.
func (w *world) seen(name, version string) {
	w.Helper()
	w.until("cluster "+name+" has checked in", func(context.Context) string {
		c, gone := get[*fleet.Cluster](w, w.local, fleet.NamespaceDefault, name)
		if gone != "" {
			return gone
		}
		if c.Status.Agent.LastSeen.IsZero() || c.Status.Agent.Version != version {
			return "agent " + c.Status.Agent.Version + ": " + text(c.Status.Conditions)
		}
		return ""
	})
}

// west joins because the manager has a kubeconfig of it.
func (w *world) joinByKubeconfig() {
	data, err := os.ReadFile(w.west.cluster.Kubeconfig())
	w.must(err)
	_, err = kube.StoreOf[*corev1.Secret](w.local.client).Create(w.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "west-kubeconfig"},
		Data:       map[string][]byte{"value": data},
	})
	w.must(err)
	began := time.Now()
	_, err = kube.StoreOf[*fleet.Cluster](w.local.client).Create(w.Context(), &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: w.west.name},
		Spec:       fleet.ClusterSpec{KubeConfigSecret: "west-kubeconfig"},
	})
	w.must(err)
	w.until("the agent of west runs", func(context.Context) string {
		return w.running(w.west, fleet.NamespaceSystem, before, "fleet-agent")
	})
	w.seen(w.west.name, before)
	w.Logf("NUMBER kubeconfig given -> agent checked in: %s", w.since(began))
}
