package rights_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// The first time with credentialTTL an agent moves to tokens that end; the one that
// lasts is void, and nothing of the agent was interrupted.
func ends(w *world, t testing.TB, veteran *member) {
	m := veteran.In(t)
	m.settled()
	token, renewal := m.kept()
	for name, s := range map[string]struct {
		span credential.Validity
		want time.Duration
	}{"token": {credential.SpanOf(token), brief.TTL}, "renewal": {credential.SpanOf(renewal), brief.RenewalTTL()}} {
		if got := s.span.Expires.Sub(s.span.Issued).Round(time.Minute); got != s.want {
			t.Errorf("the %s lasts %s, want %s", name, got, s.want)
		}
	}
	o := m.offer()
	m.Until("the lasting token is gone", func() bool {
		_, there := get[*corev1.Secret](w, fleet.NamespaceRegistration, credential.LastingToken(o.Account))
		return !there
	})
	if at := m.cluster().Status.Agent.CredentialExpires; at == nil || at.Sub(credential.SpanOf(token).Expires).Abs() > time.Second {
		t.Errorf("the Cluster says that it ends at %v", at)
	}
	if err := m.works(token); err != nil {
		t.Error(err)
	}
	if err := m.works(renewal); !kube.IsForbidden(err) {
		t.Errorf("the token that renews may read deployments: %v", err)
	}
}

// A token is renewed after half of its life, while it works.
func renews(w *world, t testing.TB, b registration.Bootstrapping) {
	m := w.join(t, "renew", b)
	m.settled()
	m.Stop()
	m.backdate(brief.TTL * 65 / 100)
	old, oldRenewal := m.kept()
	if err := m.works(old); err != nil {
		t.Fatalf("the token works for some time: %v", err)
	}
	m.Start()
	m.Until("the token is renewed", func() bool { token, _ := m.kept(); return token != old })
	token, renewal := m.kept()
	if left := time.Until(credential.SpanOf(token).Expires); left < brief.TTL-time.Minute || renewal == oldRenewal {
		t.Errorf("the new token has %s left; the other is new: %v", left, renewal != oldRenewal)
	}
	if err := m.works(old); err != nil {
		t.Errorf("the token before overlaps: %v", err)
	}
	m.Until("the manager knows until when", func() bool {
		at := m.cluster().Status.Agent.CredentialExpires
		return at != nil && time.Until(at.Time) > brief.TTL-time.Minute
	})
	if m.Contact()["reached"] != "true" {
		t.Errorf("the agent lost its manager: %v", m.Contact())
	}
}

// A rotation voids every token of the old account, also those that the agent, or a
// thief of its credential, has requested.
func rotatesBrief(w *world, t testing.TB, b registration.Bootstrapping) {
	m := w.join(t, "rotate-brief", b)
	m.settled()
	old, oldRenewal := m.kept()
	o := m.offer()
	stolen, err := w.as(old).RequestToken(t.Context(), kube.Key{Namespace: o.Namespace, Name: o.Account}, brief.TTL)
	w.must(err) // it has fetched its own so
	m.rotate("leaked")
	m.settled()
	for name, token := range map[string]string{"the token before": old, "one made with it": stolen} {
		m.void(name, token)
	}
	w.until("the renewal token before is void", func() bool {
		_, err := w.as(oldRenewal).RequestToken(t.Context(), kube.Key{Namespace: o.Namespace, Name: o.Account}, brief.TTL)
		return kube.IsUnauthorized(err) || kube.IsForbidden(err)
	})
	token, renewal := m.kept()
	if err := m.works(token); err != nil || renewal == oldRenewal || m.offer().Account == o.Account {
		t.Errorf("want new tokens of another account: %v", err)
	}
}

// No agent can request a token that lasts longer, nor one of another's account.
func noLonger(w *world, t testing.TB, b registration.Bootstrapping) {
	m := w.join(t, "no-longer", b)
	m.settled()
	token, renewal := m.kept()
	o := m.offer()
	account, renewing := kube.Key{Namespace: o.Namespace, Name: o.Account}, kube.Key{Namespace: o.Namespace, Name: o.Renewal}
	other := kube.Key{Namespace: o.Namespace, Name: list[*corev1.ServiceAccount](w, o.Namespace, fleet.LabelCluster+"!="+m.Name)[0].Name}
	ask := func(with string, whose kube.Key, ttl time.Duration) error {
		_, err := w.as(with).RequestToken(t.Context(), whose, ttl)
		return err
	}
	// The API server has to hear of the policy first, and of who may renew.
	w.until("the policy holds", func() bool { return ask(token, account, brief.TTL+time.Hour) != nil })
	w.until("it may be renewed", func() bool { return ask(renewal, account, brief.TTL) == nil })
	for name, c := range map[string]struct {
		err error
		ok  bool
	}{
		"OwnAsLong":        {ask(token, account, brief.TTL), true},
		"OwnLonger":        {ask(token, account, brief.TTL+time.Second), false},
		"RenewalAsLong":    {ask(token, renewing, brief.RenewalTTL()), true},
		"RenewalLonger":    {ask(token, renewing, brief.RenewalTTL()+time.Second), false},
		"ByRenewal":        {ask(renewal, account, brief.TTL), true},
		"ByRenewalLonger":  {ask(renewal, account, brief.TTL+time.Second), false},
		"RenewalByItself":  {ask(renewal, renewing, brief.TTL), false},
		"Another's":        {ask(token, other, brief.TTL), false},
		"Manager's":        {ask(token, kube.Key{Namespace: fleet.NamespaceSystem, Name: "fleet-controller"}, time.Hour), false},
		"Another'sRenewal": {ask(renewal, other, brief.TTL), false},
	} {
		if (c.err == nil) != c.ok {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

// An agent that was away for twenty days comes back by itself: its token has ended,
// and it fetches another one.
func comesBack(w *world, m *member) {
	m.settled()
	m.Stop()
	m.backdate(20 * day)
	old, _ := m.kept()
	w.later(20 * day)
	m.Until("the manager says that it gets another one", func() bool {
		reason, message := m.condition()
		return reason == credential.ReasonExpired && strings.Contains(message, "30d")
	})
	if err := m.works(old); !kube.IsUnauthorized(err) { // it is another text than any that was shown before
		m.Fatalf("the token has ended: %v", err)
	}
	m.Start()
	m.Until("the agent is back", func() bool {
		token, _ := m.kept()
		return token != old && m.Contact()["reached"] == "true"
	})
	w.reported(m.Namespace, "fleet-agent-contact", "CredentialRecovered")
	m.Order("app", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "one")}})
	m.State("app", fleet.Ready)
	w.managerProcess.Ahead.Store(0) // its sign of life has the API server's time
	w.managerProcess.Halt(w)
	w.managerProcess.Run(w)
	m.Until("nothing is left to say", func() bool { reason, _ := m.condition(); return reason == "" })
}

// After forty days it has to join again, and both sides say so; it keeps what it
// deployed meanwhile.
func joinsAgain(w *world, m *member, b registration.Bootstrapping) {
	m.settled()
	m.Order("app", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "one")}})
	m.State("app", fleet.Ready)
	m.Stop()
	_, renewal := m.kept()
	o := m.offer()
	m.backdate(40 * day)
	w.later(40 * day)
	m.Until("the manager says what to do", func() bool {
		reason, message := m.condition()
		return reason == credential.ReasonGraceOver && strings.Contains(message, "registration token")
	})
	w.reported(m.Workspace, m.Name, "CredentialGraceOver")
	// Also a renewal token that has not ended yet is of no use any more.
	w.until("nothing renews it", func() bool {
		_, err := w.as(renewal).RequestToken(m.Context(), kube.Key{Namespace: o.Namespace, Name: o.Account}, brief.TTL)
		return kube.IsForbidden(err)
	})
	m.Start()
	m.Until("the agent says what to do", func() bool {
		c := m.Contact()
		return c["reason"] == "CredentialEnded" && strings.Contains(c["hint"], "registration token")
	})
	w.reported(m.Namespace, "fleet-agent-contact", "CredentialEnded")
	if got := m.Data(m.Home("app"), "a"); got != "one" {
		m.Errorf("what ran is gone: %q", got)
	}
	w.managerProcess.Ahead.Store(0) // else the time to fetch the new credential is over at once
	m.Give(b)
	m.Until("it has joined again", func() bool { return m.Contact()["reached"] == "true" })
	m.in()
	m.State("app", fleet.Ready)
	m.Until("nothing is left to say", func() bool { reason, _ := m.condition(); return reason == "" })
}

// Without credentialTTL agents go back to a token that lasts, and what renewed the
// other goes.
func lastsAgain(w *world, m *member) {
	m.Until("the agent uses a token that lasts", func() bool {
		c := m.cluster()
		token, _ := m.kept()
		return credential.SpanOf(token).Endless() && c.Status.Agent.Credential == credential.Digest(c.Annotations[fleet.AnnotationCredential])
	})
	m.Until("what renewed goes", func() bool {
		return len(list[*corev1.ServiceAccount](w, fleet.NamespaceRegistration, fleet.LabelCluster+"="+m.Name)) == 1
	})
	token, renewal := m.kept()
	if err := m.works(token); err != nil || renewal != "" {
		m.Errorf("the lasting token: %v", err)
	}
	if at := m.cluster().Status.Agent.CredentialExpires; at != nil {
		m.Errorf("the Cluster says that it ends at %v", at)
	}
	if _, there := get[*corev1.Secret](w, fleet.NamespaceRegistration, credential.LastingToken(m.accounts()[0])); !there {
		m.Error("there is no lasting token")
	}
}
