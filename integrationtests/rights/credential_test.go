package rights_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// brief is the life of tokens where they end.
var brief = credential.Lifetimes{TTL: day, Grace: 30 * day}

// How agents get, renew, change and lose their credentials, with a real manager and
// real agents. First credentials last, as they do by default; then the manager is
// upgraded to credentialTTL; then some agents were away; then it is as before.
func TestCredentials(t *testing.T) {
	w := newWorld(t, credential.Lifetimes{Grace: credential.DefaultGrace})
	b := w.token("all")
	veteran := w.join(t, "veteran", b)
	t.Run("Lasting", func(t *testing.T) {
		together(t, w, map[string]func(*world, testing.TB){
			"NothingIsWritten": func(w *world, t testing.TB) { lasts(w, t, veteran) },
			"Rotate":           func(w *world, t testing.TB) { rotates(w, t, b) },
			"Revoke":           func(w *world, t testing.TB) { revokes(w, t, b) },
			"OldAgent":         func(w *world, t testing.TB) { untaken(w, t, b) },
			"LabelsOfAPatch":   func(w *world, t testing.TB) { patches(w, t, b) },
		})
	})
	w.become(brief)
	away, gone := w.join(t, "away", b), w.join(t, "gone", b)
	t.Run("Ending", func(t *testing.T) {
		together(t, w, map[string]func(*world, testing.TB){
			"SwitchedOn": func(w *world, t testing.TB) { ends(w, t, veteran) },
			"Renew":      func(w *world, t testing.TB) { renews(w, t, b) },
			"Rotate":     func(w *world, t testing.TB) { rotatesBrief(w, t, b) },
			"NoLonger":   func(w *world, t testing.TB) { noLonger(w, t, b) },
		})
	})
	t.Run("TwentyDaysAway", func(t *testing.T) { comesBack(w.in(t), away.In(t)) })
	t.Run("FortyDaysAway", func(t *testing.T) { joinsAgain(w.in(t), gone.In(t), b) })
	w.become(credential.Lifetimes{Grace: credential.DefaultGrace})
	t.Run("SwitchedOff", func(t *testing.T) { lastsAgain(w.in(t), veteran.In(t)) })
}

// together runs parts of a test at once.
func together(t *testing.T, w *world, parts map[string]func(*world, testing.TB)) {
	t.Helper()
	for name, part := range parts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			part(w.in(t), t)
		})
	}
}

// In is the member for a part of the test.
func (m *member) In(t testing.TB) *member { return &member{Site: m.For(t), w: m.w.in(t)} }

// An agent that just works has nothing written for it: no offer, no condition, no
// account beside its own.
func lasts(w *world, t testing.TB, veteran *member) {
	m := veteran.In(t)
	c := m.cluster()
	if c.Annotations[fleet.AnnotationCredential] != "" || c.Status.Agent.Credential != "" || c.Status.Agent.CredentialExpires != nil {
		t.Errorf("an offer without a request: %v, %+v", c.Annotations, c.Status.Agent)
	}
	if reason, message := m.condition(); reason != "" {
		t.Errorf("condition Credential: %s, %s", reason, message)
	}
	token, renewal := m.kept()
	if !credential.SpanOf(token).Endless() || renewal != "" {
		t.Errorf("the token ends, or there is one that renews it")
	}
	accounts := list[*corev1.ServiceAccount](w, fleet.NamespaceRegistration, fleet.LabelCluster+"="+m.Name)
	if len(accounts) != 1 {
		t.Errorf("want one account, there are %d", len(accounts))
	}
}

// rotate orders another credential, as fleet cluster rotate does.
func (m *member) rotate(order string) {
	m.Helper()
	change(m.w, m.key(), func(c *fleet.Cluster) { c.Annotations[fleet.AnnotationRotate] = order })
}

// A rotation gives the agent another account, and voids the one before; what runs
// is not touched, and no connection is cut. The audit log says who wrote what.
func rotates(w *world, t testing.TB, b registration.Bootstrapping) {
	m := w.join(t, "rotate", b)
	m.Order("app", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "one")}})
	m.State("app", fleet.Ready)
	old, _ := m.kept()
	account := m.accounts()[0]

	began := time.Now()
	m.rotate("for-the-year")
	m.settled()
	m.void("the credential before", old)
	fresh, renewal := m.kept()
	if err := m.works(fresh); err != nil || fresh == old || renewal != "" || m.accounts()[0] == account {
		t.Errorf("want another credential that works: %v", err)
	}
	m.Until("the condition goes", func() bool { reason, _ := m.condition(); return reason == "" })
	w.reported(m.Workspace, m.Name, "CredentialRotated")
	w.reported(m.Namespace, "fleet-agent-contact", "CredentialTaken")
	m.Order("app", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "two")}})
	m.Until("the next order is carried out", func() bool { return m.Data(m.Home("app"), "a") == "two" })
	m.State("app", fleet.Ready)
	m.Until("no agent may fetch it any more", func() bool {
		name := m.accounts()[0] + "-fetch"
		_, role := get[*rbacv1.Role](w, fleet.NamespaceRegistration, name)
		_, binding := get[*rbacv1.RoleBinding](w, fleet.NamespaceRegistration, name)
		return !role && !binding
	})
	judge(m, began, account)

	m.rotate("once-more")
	m.settled()
	m.void("the second credential", fresh)
}

// A deleted ClusterRegistration ends the credential with the next request. A watch
// that is open lives for ten minutes at most, because the agent asked for no more.
func revokes(w *world, t testing.TB, b registration.Bootstrapping) {
	began := time.Now()
	m := w.join(t, "revoke", b)
	m.Order("app", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "one")}})
	m.State("app", fleet.Ready)
	token, _ := m.kept()
	var granted *fleet.ClusterRegistration
	m.Until("its registration is granted", func() bool { // a moment after the agent has its credential
		all := list[*fleet.ClusterRegistration](w, m.Workspace, "")
		i := slices.IndexFunc(all, func(r *fleet.ClusterRegistration) bool { return r.Status.Granted && r.Status.ClusterName == m.Name })
		if i >= 0 {
			granted = all[i]
		}
		return i >= 0
	})
	w.must(kube.StoreOf[*fleet.ClusterRegistration](w.hub.Admin).Delete(t.Context(), kube.KeyOf(granted), kube.Precondition{}))
	revoked := time.Now()
	m.void("the credential", token)
	t.Logf("refused %s after the registration was deleted", time.Since(revoked).Round(time.Millisecond))
	m.Until("the agent says so", func() bool {
		c := m.Contact()
		return c["reached"] == "false" && c["refused"] == "true" && strings.Contains(c["hint"], "registration token")
	})
	if m.Data(m.Home("app"), "a") != "one" {
		t.Error("what ran is gone")
	}
	watches := 0
	for _, r := range m.asked(began) {
		if r.Verb != "watch" {
			continue
		}
		watches++
		_, rest, _ := strings.Cut(r.Query+"&", "timeoutSeconds=")
		limit, _, _ := strings.Cut(rest, "&")
		if seconds, err := strconv.Atoi(limit); err != nil || seconds > 600 {
			t.Errorf("a watch that may live for longer than ten minutes: %s", r.Query)
		}
	}
	if watches == 0 {
		t.Error("the agent has opened no watch")
	}
}

// asked lists the requests of the agent to its manager since a moment.
func (m *member) asked(since time.Time) []harness.Request {
	m.Helper()
	all, err := m.Hub.Requests(since)
	m.Must(err)
	var out []harness.Request
	for _, r := range all {
		if r.Namespace == m.Deployments && strings.HasPrefix(r.User, "system:serviceaccount:"+fleet.NamespaceRegistration+":") {
			out = append(out, r)
		}
	}
	return out
}

// An agent that knows nothing of offers keeps what it has, and the Cluster says that
// the order waits.
func untaken(w *world, t testing.TB, b registration.Bootstrapping) {
	m := w.join(t, "old-agent", b)
	m.Stop()
	token, _ := m.kept()
	m.rotate("now")
	m.Until("the order waits", func() bool { reason, _ := m.condition(); return reason == credential.ReasonPending })
	if err := m.works(token); err != nil {
		t.Errorf("its credential must be good until it takes the other: %v", err)
	}
	if len(m.accounts()) != 2 || m.cluster().Annotations[fleet.AnnotationRotate] == "" {
		t.Errorf("the order is forgotten: %v", m.accounts())
	}
	// The agent was only away.
	m.Start()
	m.settled()
	m.void("the credential before", token)
}
